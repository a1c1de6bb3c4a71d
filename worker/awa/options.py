"""What a producer says about a job: checked once, here, at the call.

`parse_new_job` turns args and options into a `NewJob`, which the store takes as it is. Options are
values: made once, they can stand for any number of jobs, and are not checked again.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from datetime import datetime
from typing import Any, NamedTuple, TypedDict

from awa.encoding import MAX_ARGS_BYTES, MAX_METADATA_BYTES, encode, is_pydantic
from awa.errors import ValidationError
from awa.job import JobState
from awa.kind import derive_kind
from awa.limits import (
    HIGHEST_PRIORITY,
    LOWEST_PRIORITY,
    MAX_ATTEMPTS_LIMIT,
    MAX_TAGS,
    check_name,
    check_number,
    parse_time,
)
from awa.unique import DEFAULT_STATES, check_bucket, mask_of, unique_key

DEFAULT_QUEUE = "default"
DEFAULT_PRIORITY = 2
DEFAULT_MAX_ATTEMPTS = 25


@dataclass(frozen=True, slots=True)
class UniqueOptions:
    """When two jobs are the same, and in which states the earlier one keeps the later one out.

    The kind always counts; `by_queue`, `by_args` and `by_period` say what else does. `by_period` is
    the number of a period, see `period_bucket`. `states` are the states in which a job holds its
    key: `JobState`s, their names, or a mask. With completed among them, which is the default, a job
    is unique until it is pruned. Raises `ValidationError`.
    """

    by_queue: bool = False
    by_args: bool = True
    by_period: int | None = None
    states: Iterable[JobState | str] | int = DEFAULT_STATES
    mask: int = field(init=False)

    def __post_init__(self) -> None:
        if self.by_period is not None:
            check_bucket(self.by_period)
        states = self.states
        mask = states if isinstance(states, int) else mask_of(states)
        if not 1 <= mask <= 0xFF:
            raise ValidationError("unique states need one of the eight job states at least")
        object.__setattr__(self, "mask", mask)

    @classmethod
    def parse(cls, options: "UniqueOptions | Mapping[str, Any]") -> "UniqueOptions":
        """Take options as they are, or make them from a mapping with the same names."""
        if isinstance(options, UniqueOptions):
            return options
        names = {item.name for item in fields(cls) if item.init}
        _refuse_unknown("unique_opts", options, names)
        return cls(**options)

    def key(self, kind: str, queue: str, args_json: str) -> bytes:
        """Return the unique key of a job with these options."""
        return unique_key(
            kind,
            queue=queue if self.by_queue else None,
            args_json=args_json if self.by_args else None,
            bucket=self.by_period,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class InsertOptions:
    """Everything about a job but its kind and args. Raises `ValidationError` for what it refuses.

    A job with a `run_at`, also one in the past, starts as scheduled. `metadata` takes up to 64 KiB
    of JSON text. `unique_opts` may also be a mapping with the names of `UniqueOptions`.
    """

    queue: str = DEFAULT_QUEUE
    priority: int = DEFAULT_PRIORITY
    max_attempts: int = DEFAULT_MAX_ATTEMPTS
    run_at: datetime | str | None = None
    tags: Iterable[str] | None = None
    metadata: Mapping[str, Any] | None = field(default=None, repr=False)
    unique_opts: UniqueOptions | Mapping[str, Any] | None = None
    due: datetime | None = field(init=False)
    payload_json: str | None = field(init=False, repr=False)
    unique: UniqueOptions | None = field(init=False)

    def __post_init__(self) -> None:
        check_name("queue", self.queue)
        check_number("priority", self.priority, HIGHEST_PRIORITY, LOWEST_PRIORITY)
        check_number("max_attempts", self.max_attempts, 1, MAX_ATTEMPTS_LIMIT)
        self._derive("due", None if self.run_at is None else parse_time("run_at", self.run_at))
        self._derive("payload_json", _payload(self.tags, self.metadata))
        unique = self.unique_opts
        self._derive("unique", None if unique is None else UniqueOptions.parse(unique))

    def _derive(self, name: str, value: object) -> None:
        object.__setattr__(self, name, value)


class JobOptions(TypedDict, total=False):
    """The keywords of every call that enqueues, for type checkers; see `InsertOptions`."""

    queue: str
    priority: int
    max_attempts: int
    run_at: datetime | str | None
    tags: Iterable[str] | None
    metadata: Mapping[str, Any] | None
    unique_opts: UniqueOptions | Mapping[str, Any] | None


def checked_names(options: JobOptions) -> JobOptions:
    """Return options as they are; raise TypeError for a name that is none."""
    for name in options:
        if name not in JobOptions.__annotations__:
            known = ", ".join(sorted(JobOptions.__annotations__))
            raise TypeError(f"unknown option {name!r}; options are {known}")
    return options


class NewJob(NamedTuple):
    """A job as the store takes it: checked, encoded, not yet enqueued.

    A tuple, so that `zip(*jobs)` makes the store's arrays. `payload_json`, `unique_key` and
    `unique_mask` are None when the job has none.
    """

    kind: str
    queue: str
    priority: int
    args_json: str
    run_at: datetime | None
    max_attempts: int
    payload_json: str | None
    unique_key: bytes | None
    unique_mask: int | None

    def __repr__(self) -> str:
        return f"<NewJob {self.kind} for {self.queue}>"


def parse_new_job(
    args: object, options: InsertOptions | None = None, *, kind: str | None = None
) -> NewJob:
    """Return the job to enqueue for `args`: a dataclass or pydantic instance, or a dict.

    The kind of an instance is derived from its class name unless `kind` is given; a dict needs
    `kind`. Raises `ValidationError` for the wrong kind of args, `SerializationError` for args
    without a JSON form or over 1 MiB of JSON text.
    """
    if options is None:
        options = DEFAULT_OPTIONS
    if kind is None:
        kind = derived_kind(args)
    elif type(kind) is not str or kind not in _checked_kinds:
        kind = _checked_kind(kind)
    text = encode(args, "args", MAX_ARGS_BYTES)
    if text[0] != "{":
        raise ValidationError(
            f"args are a dataclass or pydantic instance or a dict, not a {type(args).__name__}"
        )
    unique = options.unique
    key = mask = None
    if unique is not None:
        key, mask = unique.key(kind, options.queue, text), unique.mask
    return NewJob(
        kind,
        options.queue,
        options.priority,
        text,
        options.due,
        options.max_attempts,
        options.payload_json,
        key,
        mask,
    )


def derived_kind(args: object) -> str:
    """Return the kind that the class of `args` stands for; raise `ValidationError` for a dict."""
    cls = type(args)
    kind = _kinds.get(cls)
    if kind is None:
        if not (is_dataclass(cls) or is_pydantic(cls)):
            raise ValidationError(
                "args that are not a dataclass or pydantic instance need a kind: pass kind=…"
            )
        if len(_kinds) >= _CACHE_LIMIT:
            _kinds.clear()
        kind = _kinds[cls] = _checked_kind(derive_kind(cls.__name__))
    return kind


def _payload(tags: Iterable[str] | None, metadata: Mapping[str, Any] | None) -> str | None:
    parts = []
    if metadata:
        if not isinstance(metadata, Mapping):
            raise ValidationError(f"metadata is a dict, not a {type(metadata).__name__}")
        parts.append('"metadata":' + encode(dict(metadata), "metadata", MAX_METADATA_BYTES))
    if tags:
        parts.append('"tags":' + encode(_checked_tags(tags), "tags"))
    return f"{{{','.join(parts)}}}" if parts else None


def _checked_tags(tags: Iterable[str]) -> list[str]:
    if isinstance(tags, str):
        raise ValidationError("tags are a list of str, not one str; pass [tag]")
    checked = list(tags)
    if len(checked) > MAX_TAGS:
        raise ValidationError(f"there are {len(checked)} tags; a job takes up to {MAX_TAGS}")
    for position, tag in enumerate(checked):
        check_name(f"tags[{position}]", tag)
    return checked


def _checked_kind(kind: str) -> str:
    check_name("kind", kind)
    if len(_checked_kinds) >= _CACHE_LIMIT:
        _checked_kinds.clear()
    exact = str.__str__(kind)  # a subclass may say something else of itself
    _checked_kinds.add(exact)
    return exact


def _refuse_unknown(what: str, options: Mapping[str, Any], known: set[str]) -> None:
    unknown = sorted(str(name) for name in options if name not in known)
    if unknown:
        raise ValidationError(
            f"{what} has no option {unknown[0]!r}; it takes {', '.join(sorted(known))}"
        )


_CACHE_LIMIT = 4096
_kinds: dict[type, str] = {}
_checked_kinds: set[str] = set()

DEFAULT_OPTIONS = InsertOptions()
