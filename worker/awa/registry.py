"""Handlers by kind, and how each is called.

A handler is a function of one argument, the job. Registering works out everything that does not
depend on a single job: the kind, how args are decoded, whether the function is a coroutine.
"""

import functools
import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass, is_dataclass
from typing import Any, get_args, get_origin, get_type_hints

from awa.decoding import decoder_for
from awa.encoding import decode, is_pydantic
from awa.errors import UnknownJobKind, ValidationError
from awa.job import Job
from awa.kind import derive_kind
from awa.limits import check_name

type Handle = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Handler:
    """A registered function. `queue` is where its jobs are expected, None for any queue."""

    kind: str
    function: Handle
    is_async: bool
    args_type: Any
    decode_args: Callable[[str], Any]
    """Turn a job's JSON text into what `args_type` says; `SerializationError` if it cannot be."""
    queue: str | None
    output_type: Any


class Registry:
    """The handlers of one worker, one for each kind."""

    def __init__(self) -> None:
        self._handlers: dict[str, Handler] = {}

    def add(
        self,
        function: Handle,
        args_type: Any = None,
        *,
        kind: str | None = None,
        queue: str | None = None,
        output: Any = None,
    ) -> Handler:
        """Register `function` and return how it is called.

        `args_type` is a dataclass, a pydantic model or dict; without it the annotation `Job[X]` of
        the parameter counts, else args are plain JSON values. Without `kind` it is derived from the
        name of the args type. `output` is the type of the outputs that the function records.

        Raises `ValidationError` for something that cannot be a handler, for a kind that cannot be
        derived, and for one that is registered already.
        """
        _check_function(function)
        args_type = _annotated_args(function) if args_type is None else args_type
        kind = _kind_for(args_type) if kind is None else kind
        check_name("kind", kind)
        if queue is not None:
            check_name("queue", queue)
        if kind in self._handlers:
            raise ValidationError(
                f"kind {kind!r} has a handler already; give one of the two another kind"
            )
        handler = Handler(
            kind=kind,
            function=function,
            is_async=_is_async(function),
            args_type=args_type,
            decode_args=_args_decoder(args_type),
            queue=queue,
            output_type=output,
        )
        self._handlers[kind] = handler
        return handler

    def task[F: Handle](
        self,
        args_type: Any = None,
        *,
        kind: str | None = None,
        queue: str | None = None,
        output: Any = None,
    ) -> Callable[[F], F]:
        """Return a decorator that registers a function, see `add`, and leaves it as it is."""

        def register(function: F) -> F:
            self.add(function, args_type, kind=kind, queue=queue, output=output)
            return function

        return register

    def get(self, kind: str) -> Handler | None:
        """Return the handler of `kind`, None when there is none."""
        return self._handlers.get(kind)

    def __getitem__(self, kind: str) -> Handler:
        handler = self._handlers.get(kind)
        if handler is None:
            raise UnknownJobKind(kind)
        return handler

    def __contains__(self, kind: object) -> bool:
        return kind in self._handlers

    def __iter__(self) -> Iterator[Handler]:
        return iter(tuple(self._handlers.values()))

    def __len__(self) -> int:
        return len(self._handlers)

    @property
    def kinds(self) -> tuple[str, ...]:
        """The registered kinds in the order of registration."""
        return tuple(self._handlers)

    @property
    def queues(self) -> frozenset[str]:
        """The queues that handlers name."""
        return frozenset(h.queue for h in self._handlers.values() if h.queue is not None)


def _check_function(function: Any) -> None:
    if not callable(function):
        raise ValidationError(f"a handler is a function, not a {type(function).__name__}")
    bare = _bare(function)
    if inspect.isgeneratorfunction(bare) or inspect.isasyncgenfunction(bare):
        raise ValidationError("a handler returns once; a generator function cannot be one")
    try:
        inspect.signature(function).bind(None)
    except TypeError:
        raise ValidationError("a handler takes one argument, the job") from None
    except ValueError:  # a built-in that does not tell its parameters
        return


def _bare(function: Any) -> Any:
    """Return the function behind partials and callable objects."""
    while isinstance(function, functools.partial):
        function = function.func
    if inspect.isroutine(function) or isinstance(function, type):
        return function
    return type(function).__call__


def _is_async(function: Any) -> bool:
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(_bare(function))


def _annotated_args(function: Any) -> Any:
    """Return X when the handler's parameter is annotated `Job[X]` and X can be resolved."""
    bare = _bare(function)
    try:
        hints = get_type_hints(bare)
        parameter = next(iter(inspect.signature(function).parameters))
    except (NameError, TypeError, ValueError, AttributeError, StopIteration):
        return None
    annotation = hints.get(parameter)
    if get_origin(annotation) is not Job:
        return None
    (args_type,) = get_args(annotation)
    return None if args_type is Any else args_type


def _kind_for(args_type: Any) -> str:
    if isinstance(args_type, type) and (is_dataclass(args_type) or is_pydantic(args_type)):
        return derive_kind(args_type.__name__)
    raise ValidationError(
        "the kind cannot be derived: pass kind=…, or a dataclass or pydantic model as the args type"
    )


def _args_decoder(args_type: Any) -> Callable[[str], Any]:
    if args_type is None:
        return decode
    if args_type is dict or get_origin(args_type) is dict or is_class_of_objects(args_type):
        return decoder_for(args_type, "args").from_json
    raise ValidationError(
        "the args type is a dataclass, a pydantic model, a TypedDict or dict; args are JSON objects"
    )


def is_class_of_objects(args_type: Any) -> bool:
    """Whether values of the type are JSON objects: dataclasses, pydantic models and TypedDicts."""
    if not isinstance(args_type, type):
        origin = get_origin(args_type)
        return isinstance(origin, type) and is_dataclass(origin)
    return is_dataclass(args_type) or is_pydantic(args_type) or issubclass(args_type, dict)
