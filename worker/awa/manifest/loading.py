"""Read a manifest: text or file in, `Queue` out, or one error that lists all that is wrong."""

from pathlib import Path
from typing import Literal

from pydantic import ValidationError

from awa.manifest.document import Document, DocumentError, Json, read_documents
from awa.manifest.problems import ManifestError, Problem, problems_of
from awa.manifest.queue import API_VERSION, GROUP, KIND, Queue

TEXT = "manifest"
"""Name of a manifest that came as text."""


def load_queue(text_or_path: str | Path, name: str | None = None) -> Queue:
    """Return the one Queue of a manifest, or the one whose `metadata.name` is `name`.

    A `Path`, or a text of one line that is not JSON, is the path of a file; anything else is the
    YAML itself. Documents of other kinds are passed over. Raises ManifestError, with every problem
    at once, for anything that cannot be used.
    """
    queues = load_queues(text_or_path)
    source = _source(text_or_path)
    names = ", ".join(queue.metadata.name for queue in queues)
    if name is not None:
        queues = [queue for queue in queues if queue.metadata.name == name]
        if not queues:
            raise ManifestError(source, [Problem("", f"has no Queue {name}; it has {names}")])
    if len(queues) > 1:
        raise ManifestError(
            source, [Problem("", f"has several Queues ({names}); name one of them")]
        )
    return queues[0]


def load_queues(text_or_path: str | Path) -> list[Queue]:
    """Return the Queues of a manifest, at least one, in the order of the text.

    Raises ManifestError as `load_queue` does, and for two Queues of one name.
    """
    source = _source(text_or_path)
    documents = _documents(source, _text(text_or_path, source))
    candidates = [document for document in documents if _is_ours(document.value)]
    if not candidates:
        raise ManifestError(source, [_no_queue(documents)])
    queues: list[Queue] = []
    problems: list[Problem] = []
    for document in candidates:
        try:
            queues.append(Queue.model_validate(document.value))
        except ValidationError as error:
            problems += problems_of(error, document)
        else:
            problems += _repeated(queues, document)
    if problems:
        raise ManifestError(source, problems)
    return queues


def parse_queue(resource: object) -> Queue:
    """Return the Queue that plain JSON values are.

    Raises ManifestError; its problems have paths and no lines.
    """
    return _parsed(resource)


def parse_stored_queue(resource: object) -> Queue:
    """Return the Queue that an API server stored, as plain JSON values.

    The server refused what its definition does not know. That definition may be of a later release,
    which fills in fields that this one does not know: they are left out.
    Raises ManifestError as `parse_queue` does.
    """
    return _parsed(resource, "ignore")


def _parsed(resource: object, unknown: Literal["ignore"] | None = None) -> Queue:
    try:
        return Queue.model_validate(resource, extra=unknown)
    except ValidationError as error:
        raise ManifestError(KIND, problems_of(error)) from None


def _is_file(text_or_path: str | Path) -> bool:
    if isinstance(text_or_path, Path):
        return True
    return "\n" not in text_or_path and not text_or_path.lstrip().startswith("{")


def _source(text_or_path: str | Path) -> str:
    return str(text_or_path) if _is_file(text_or_path) else TEXT


def _text(text_or_path: str | Path, source: str) -> str:
    if isinstance(text_or_path, str) and not _is_file(text_or_path):
        return text_or_path
    try:
        return Path(text_or_path).read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise ManifestError(source, [Problem("", _unreadable(error))]) from None


def _unreadable(error: OSError | ValueError) -> str:
    if isinstance(error, FileNotFoundError):
        return "there is no such file"
    if isinstance(error, IsADirectoryError):
        return "is a folder; name the file in it"
    if isinstance(error, UnicodeDecodeError):
        return "is not a text in UTF-8"
    if isinstance(error, OSError):
        return f"cannot be read: {(error.strerror or 'input or output failed').lower()}"
    return "is not the name of a file"


def _documents(source: str, text: str) -> list[Document]:
    try:
        return read_documents(text)
    except DocumentError as error:
        raise ManifestError(source, [Problem("", str(error), error.line)]) from None


def _is_ours(value: Json) -> bool:
    """Tell whether a document means to be a Queue of ours, however wrong it is."""
    if not isinstance(value, dict):
        return False
    version = value.get("apiVersion")
    if isinstance(version, str) and "/" in version:
        return version.partition("/")[0] == GROUP
    return value.get("kind") == KIND or (version is None and "kind" not in value)


def _no_queue(documents: list[Document]) -> Problem:
    wanted = f"there is no Queue; it starts with apiVersion: {API_VERSION} and kind: {KIND}"
    if not documents:
        return Problem("", f"is empty; {wanted}")
    first = documents[0]
    if not isinstance(first.value, dict):
        return Problem("", f"is not an object with fields; {wanted}", first.line_of(()))
    kind, version = first.value.get("kind"), first.value.get("apiVersion")
    return Problem("", f"{wanted}; this is {kind} of {version}", first.line_of(()))


def _repeated(queues: list[Queue], document: Document) -> list[Problem]:
    *earlier, queue = queues
    place = (queue.metadata.namespace, queue.metadata.name)
    if place not in [(other.metadata.namespace, other.metadata.name) for other in earlier]:
        return []
    path = ("metadata", "name")
    return [Problem("metadata.name", "is that of a Queue above", document.line_of(path))]
