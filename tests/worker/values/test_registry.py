import dataclasses
import functools
from collections.abc import AsyncIterator, Iterator
from typing import Any, TypedDict

import pydantic
import pytest

from awa.errors import SerializationError, UnknownJobKind, ValidationError
from awa.job import Job
from awa.registry import Registry


@dataclasses.dataclass
class SendEmail:
    to: str


class RenderPage(pydantic.BaseModel):
    number: int


class Note(TypedDict):
    text: str


async def handle(job: Job[Any]) -> None: ...


def handle_blocking(job: Job[Any]) -> None: ...


class Callable:
    async def __call__(self, job: Job[Any]) -> None: ...


class Methods:
    async def run(self, job: Job[SendEmail]) -> None: ...

    def run_blocking(self, job: Job[SendEmail]) -> None: ...


def test_a_handler_is_found_under_the_kind_of_its_args_type() -> None:
    registry = Registry()
    handler = registry.add(handle, SendEmail, queue="mail", output=int)
    assert registry.get("send_email") is registry["send_email"] is handler
    assert (handler.kind, handler.queue, handler.output_type) == ("send_email", "mail", int)
    assert handler.function is handle
    assert "send_email" in registry
    assert registry.kinds == ("send_email",)
    assert registry.queues == {"mail"}
    assert [h.kind for h in registry] == ["send_email"]
    assert len(registry) == 1


def test_a_decorated_function_stays_as_it_is() -> None:
    registry = Registry()

    @registry.task(SendEmail, kind="mail")
    async def send(job: Job[SendEmail]) -> None: ...

    assert registry["mail"].function is send


@pytest.mark.parametrize(
    ("function", "is_async"),
    [
        (handle, True),
        (handle_blocking, False),
        (Callable(), True),
        (Methods().run, True),
        (Methods().run_blocking, False),
        (functools.partial(handle), True),
        (functools.partial(handle_blocking), False),
        (functools.partial(Callable()), True),
        (lambda job: None, False),
    ],
)
def test_it_is_known_whether_a_function_must_be_awaited(function: Any, is_async: bool) -> None:
    assert Registry().add(function, SendEmail).is_async is is_async


def test_args_are_decoded_as_the_type_says() -> None:
    registry = Registry()
    assert registry.add(handle, SendEmail).decode_args('{"to":"a"}') == SendEmail("a")
    assert registry.add(handle, RenderPage).decode_args('{"number":1}') == RenderPage(number=1)
    assert registry.add(handle, dict, kind="d").decode_args('{"a":1}') == {"a": 1}
    assert registry.add(handle, dict[str, int], kind="e").decode_args('{"a":1}') == {"a": 1}
    assert registry.add(handle, Note, kind="n").decode_args('{"text":"a"}') == {"text": "a"}
    assert registry.add(handle, kind="plain").decode_args('{"a":1}') == {"a": 1}


def test_args_that_do_not_fit_are_an_error_of_ours() -> None:
    handler = Registry().add(handle, SendEmail)
    with pytest.raises(SerializationError, match="args does not fit SendEmail: without to"):
        handler.decode_args("{}")


def test_the_annotation_of_the_job_names_the_args_type() -> None:
    registry = Registry()
    assert registry.add(Methods().run).args_type is SendEmail
    assert registry.kinds == ("send_email",)

    def page(job: "Job[RenderPage]") -> None: ...

    assert registry.add(page).kind == "render_page"


def test_a_kind_that_cannot_be_derived_must_be_given() -> None:
    for args_type in (None, dict, Note):
        with pytest.raises(ValidationError, match="the kind cannot be derived: pass kind=…"):
            Registry().add(handle, args_type)


def test_a_second_handler_of_a_kind_is_refused_and_the_first_stays() -> None:
    registry = Registry()
    first = registry.add(handle, SendEmail)
    with pytest.raises(ValidationError, match="'send_email' has a handler already"):
        registry.add(handle_blocking, dict, kind="send_email")
    assert registry["send_email"] is first


def test_an_unknown_kind_is_an_error_that_names_it() -> None:
    assert Registry().get("resize") is None
    with pytest.raises(UnknownJobKind, match="'resize'"):
        Registry()["resize"]


def generator(job: Job[Any]) -> Iterator[int]:
    yield 1


async def async_generator(job: Job[Any]) -> AsyncIterator[int]:
    yield 1


@pytest.mark.parametrize(
    ("function", "message"),
    [
        ("text", "a handler is a function, not a str"),
        (generator, "a generator function cannot be one"),
        (async_generator, "a generator function cannot be one"),
        (lambda: None, "takes one argument, the job"),
        (lambda a, b: None, "takes one argument, the job"),
        (lambda job, *, extra: None, "takes one argument, the job"),
    ],
)
def test_what_cannot_be_a_handler_is_refused(function: Any, message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        Registry().add(function, SendEmail)


def test_more_parameters_are_fine_when_they_have_defaults() -> None:
    assert Registry().add(lambda job, retries=3, **more: None, SendEmail).kind == "send_email"


@pytest.mark.parametrize("args_type", [int, list[int], list, "SendEmail"])
def test_an_args_type_must_be_one_of_objects(args_type: Any) -> None:
    with pytest.raises(ValidationError, match="the args type is a dataclass"):
        Registry().add(handle, args_type, kind="k")


@pytest.mark.parametrize("name", ["", "a\0", "k" * 201])
def test_kinds_and_queues_are_names(name: str) -> None:
    with pytest.raises(ValidationError, match="kind"):
        Registry().add(handle, SendEmail, kind=name)
    with pytest.raises(ValidationError, match="queue"):
        Registry().add(handle, SendEmail, queue=name)
