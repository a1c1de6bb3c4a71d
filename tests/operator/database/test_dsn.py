"""Connection strings out of Secrets."""

import base64

import pytest

from awa_operator.dsn import Dsn, DsnProblem, parse_dsn, read_dsn
from awa_operator.observed import SecretState

GOOD = "postgresql://app:s3cret@db.example:5432/app"


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


@pytest.mark.parametrize("around", ["{}", "{}\n", " {}\r\n", "\t{}"])
def test_the_text_of_a_key_is_the_connection_string_without_white_space_around(around):
    data = {"url": encoded(around.format(GOOD)), "other": encoded("x")}
    assert read_dsn("app-db", "url", data) == Dsn(GOOD)


@pytest.mark.parametrize(
    ("data", "state", "words"),
    [
        (None, SecretState.NOT_FOUND, "Secret app-db does not exist"),
        ({}, SecretState.KEY_MISSING, "Secret app-db has no key url; its keys: none"),
        (
            {"password": encoded("s3cret"), "dsn": encoded(GOOD)},
            SecretState.KEY_MISSING,
            "Secret app-db has no key url; its keys: dsn, password",
        ),
        ({"url": ""}, SecretState.INVALID_DSN, "key url of Secret app-db is empty"),
        ({"url": encoded("  \n")}, SecretState.INVALID_DSN, "is empty"),
        ({"url": "not base64, s3cret"}, SecretState.INVALID_DSN, "is not text in UTF-8"),
        (
            {"url": base64.b64encode(b"\xff\xfe s3cret").decode()},
            SecretState.INVALID_DSN,
            "is not text in UTF-8",
        ),
        ({"url": encoded(GOOD + "x" * 20_000)}, SecretState.INVALID_DSN, "is longer than 16384"),
    ],
)
def test_what_is_no_connection_string_is_said_by_name_and_key(data, state, words):
    problem = read_dsn("app-db", "url", data)
    assert isinstance(problem, DsnProblem)
    assert problem.state is state
    assert words in problem.message
    assert "s3cret" not in problem.message


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("host=db.example user=app password=s3cret", "does not start with postgresql://"),
        ("mysql://app:s3cret@db.example/app", "does not start with postgresql://"),
        ("postgresql+asyncpg://app:s3cret@db.example/app", "does not start with postgresql://"),
        ("postgresql://app:s3cret#1@db.example/app", "contains a #"),
        ("postgresql://app:s3cret@1@db.example/app", "contains @ more than once"),
        ("postgresql://app:s3cret/1@db.example/app", "has its @ behind a / or ?"),
        ("postgresql://app:12?s3cret@db.example/app", "has its @ behind a / or ?"),
        ("postgresql://app:s3cret[1@db.example/app", "cannot be read"),
        ("postgresql://app:s3cret@db.example/app?sslmode", "cannot be read"),
        ("postgresql://app:s3\tcret@db.example/app", "line break or tab"),
        ("postgresql://app:s3cret\0@db.example/app", "NUL"),
        ("postgresql://app:s3cret@/app", "names no host"),
        ("postgresql://db.example/app", "names no user"),
        ("postgresql://:s3cret@db.example/app", "names no user"),
        ("postgresql://app@db.example/app?passfile=/var/run/s3cret", "option passfile"),
        ("postgresql://app@db.example/app?service=s3cret", "option service"),
    ],
)
def test_what_the_driver_would_misread_is_refused_without_repeating_it(text, words):
    problem = parse_dsn(text)
    assert isinstance(problem, DsnProblem)
    assert words in problem.message
    assert "s3" not in problem.message


@pytest.mark.parametrize(
    "text",
    [
        "postgres://app@db.example",
        "postgresql://app:a%40b%23c%25d%2Fe%3Ff%3Ag@db.example/app",
        "postgresql://app:with space'quote\\back@db.example/app",
        "postgresql://app@one.example,two.example:5433/app?target_session_attrs=primary",
        "postgresql://app@[::1]:5432/app",
        "postgresql:///app?host=/var/run/postgresql&user=app",
        "postgresql://app@db.example/app?application_name=a%40b",
    ],
)
def test_what_the_driver_reads_as_it_was_meant_is_taken(text):
    assert parse_dsn(text) == Dsn(text)


def test_a_connection_string_is_never_shown():
    dsn = Dsn(GOOD)
    shown = f"{dsn} {dsn!r} {[dsn]} {dsn.fingerprint}"
    assert "s3cret" not in shown
    assert "db.example" not in shown


def test_a_fingerprint_changes_with_the_text_alone():
    assert Dsn(GOOD).fingerprint == Dsn(GOOD).fingerprint
    assert Dsn(GOOD).fingerprint != Dsn(GOOD + "2").fingerprint
