"""The handlers that `awa worker` runs: modules are imported, their clients found."""

import importlib
from collections.abc import Sequence
from types import ModuleType

from awa.errors import ValidationError
from awa.registry import Registry


def load_handlers(names: Sequence[str]) -> Registry:
    """Import each `module` or `module:attribute` and return all handlers of their clients.

    Without an attribute the module's only client is meant, imported or made there. Raises
    `ValidationError` when a name leads to no client or no client has a handler; an error that a
    module raises while it is imported goes through.
    """
    found: list[Registry] = []
    for name in names:
        registry = _registry_of(name)
        if not any(registry is known for known in found):
            found.append(registry)
    merged = Registry()
    for registry in found:
        for handler in registry:
            merged.add(
                handler.function, handler.args_type, kind=handler.kind, queue=handler.queue,
                output=handler.output_type,
            )  # fmt: skip
    if not len(merged):
        raise ValidationError(
            f"no handler is registered in {', '.join(names)}; decorate one with @client.task"
        )
    return merged


def _registry_of(name: str) -> Registry:
    module_name, separator, attribute = name.partition(":")
    module = _import(module_name)
    if separator:
        found = getattr(module, attribute, None)
        registry = _registry(found)
        if registry is None:
            raise ValidationError(
                f"{name} is no client: {module_name} has "
                + ("no such name" if found is None else f"a {type(found).__name__} there")
            )
        return registry
    clients = {id(r): (n, r) for n, v in vars(module).items() if (r := _registry(v)) is not None}
    if len(clients) != 1:
        raise ValidationError(_advice(module_name, sorted(n for n, _ in clients.values())))
    return next(iter(clients.values()))[1]


def _advice(module_name: str, clients: Sequence[str]) -> str:
    if not clients:
        return (
            f"module {module_name} has no client; make one there, client = AsyncClient(), or "
            "import it from where it is made"
        )
    choices = " or ".join(f"{module_name}:{client}" for client in clients)
    return f"module {module_name} has several clients; say which one: {choices}"


def _registry(value: object) -> Registry | None:
    """Return the handlers of a client, None for anything else; looks at no other attribute."""
    if not isinstance(getattr(type(value), "registry", None), property):
        return None
    registry = getattr(value, "registry", None)
    return registry if isinstance(registry, Registry) else None


def _import(name: str) -> ModuleType:
    if not all(part.isidentifier() for part in name.split(".")):
        raise ValidationError(
            f"{name!r} is no module name; write it as in an import, such as app.handlers"
        )
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        # A module that it needs and cannot find is another matter, and says so itself.
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise
        raise ValidationError(
            f"there is no module {name}; run the command where `import {name}` works"
        ) from None
