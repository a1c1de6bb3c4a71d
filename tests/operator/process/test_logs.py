"""Logs are one JSON object a line, say what they are about, and hold no secret."""

import io
import json
import logging
import sys
from typing import Any

import pytest

from awa_operator import logs

SECRET = "hunter2-p4ss"


class Lines:
    def __init__(self) -> None:
        self.stream = io.StringIO()
        self.formatter = logs.JsonFormatter()

    def of(self, record: logging.LogRecord) -> dict[str, Any]:
        line = self.formatter.format(record)
        assert "\n" not in line
        found: dict[str, Any] = json.loads(line)
        return found


@pytest.fixture
def lines() -> Lines:
    return Lines()


def record(message: str, *arguments: object, **extra: object) -> logging.LogRecord:
    made = logging.LogRecord("awa_operator.x", logging.INFO, "", 0, message, arguments, None)
    made.__dict__.update(extra)
    return made


@pytest.mark.parametrize(
    "text",
    [
        f"postgresql://app:{SECRET}@db:5432/x",
        f"could not connect to postgres://app:{SECRET}@db/x?sslmode=require now",
        f"password={SECRET} host=db",
        f"PASSWORD = '{SECRET}'",
        f'{{"password": "{SECRET}"}}',
        f"Authorization: Bearer {SECRET}abcdef",
        f"token eyJhbGciOiJSUzI1NiJ9.{SECRET}.c2ln",
    ],
)
def test_what_looks_like_a_secret_is_not_logged(lines, text):
    assert SECRET not in json.dumps(lines.of(record(text)))
    assert SECRET not in json.dumps(lines.of(record("%s", text)))
    assert SECRET not in json.dumps(lines.of(record("x", detail=text)))


def test_an_exception_is_logged_without_the_secrets_in_it(lines):
    try:
        raise RuntimeError(f"postgresql://u:{SECRET}@h/d")
    except RuntimeError:
        found = logging.LogRecord("kopf", logging.ERROR, "", 0, "failed", (), sys.exc_info())
    line = lines.of(found)
    assert "RuntimeError" in line["exception"]
    assert SECRET not in json.dumps(line)


def test_a_line_says_what_it_is_about(lines):
    with logs.about(namespace="ns", queue="mail", reconcile="ab12"), logs.about(job="j"):
        line = lines.of(record("done", count=3))
    assert line["namespace"] == "ns"
    assert line["reconcile"] == "ab12"
    assert line["job"] == "j"
    assert line["count"] == 3
    assert "namespace" not in lines.of(record("done"))


def test_long_texts_are_cut(lines):
    assert len(lines.of(record("x" * 100_000))["message"]) < 5000


def test_objects_are_logged_by_their_type_alone(lines):
    assert lines.of(record("x", thing=Lines()))["thing"] == "Lines"


def test_the_same_complaint_of_a_library_is_logged_once_a_minute_and_ours_always():
    repeats = logs.Repeats()

    def passes(name: str, message: str) -> bool:
        return repeats.filter(logging.LogRecord(name, logging.ERROR, "", 0, message, (), None))

    assert passes("kopf.clients", "Request attempt #1 failed")
    assert not passes("kopf.clients", "Request attempt #2 failed")
    assert passes("kopf.clients", "Something else")
    assert passes("awa_operator.x", "again")
    assert passes("awa_operator.x", "again")
