"""What is logged: one line for each event, and never what a job was given."""

import io
import json
import logging
import signal
from datetime import timedelta

import pytest

from awa import JobState, TerminalError, ValidationError, logs
from awa.errors import DatabaseError
from support.waiting import eventually

LONG = timedelta(seconds=30)
SECRET = "hunter2"


@pytest.fixture
def root():
    """The root logger, as it was when the test ends."""
    logger = logging.getLogger()
    handlers, level = logger.handlers[:], logger.level
    yield logger
    logger.handlers[:] = handlers
    logger.setLevel(level)


@pytest.fixture
def written(root):
    """Configure logging and return what is written: `written("json")`."""

    def configure(log_format, **environ):
        stream = io.StringIO()
        logs.configure({"AWA_LOG_FORMAT": log_format, **environ}, stream)
        return stream

    return configure


@pytest.mark.parametrize("log_format", ["json", "text"])
async def test_no_log_tells_what_jobs_were_given_recorded_or_failed_with(
    commands, client, database, log_format
):
    secret = {"secret": SECRET}
    options = {"metadata": {"m": SECRET}, "tags": [SECRET], "max_attempts": 1}
    kinds = {"a": "fail", "b": "fail", "c": "forget", "d": "quick"}
    # The server trusts; a password may be in the address all the same.
    address = database.dsn.replace("postgres@", f"postgres:{SECRET}@")
    command = commands.start(
        AWA_DATABASE_URL=address, AWA_LOG_LEVEL="debug", AWA_LOG_FORMAT=log_format
    )

    async def ended(*jobs):
        states = [(await client.get_job(job.id)).state for job in jobs]
        return all(state in {JobState.Completed, JobState.Failed} for state in states)

    jobs = [
        await client.insert({"key": key, "terminal": key == "b", **secret}, kind=kind, **options)
        for key, kind in kinds.items()
    ]
    await eventually(lambda: ended(*jobs), LONG, what="the end of every job")
    dies = await client.insert({"key": "e", **secret}, kind="die", **options)
    await eventually(lambda: ended(dies), LONG, what="the end of the poison job")
    command.send(signal.SIGTERM)
    assert await command.ended() == 0
    assert SECRET not in command.output
    for text in (
        "attempt failed",
        "an error that nobody awaited",
        "worker process died",
        "work.py",
    ):
        assert text in command.output
    failed = await client.get_job(jobs[0].id)
    assert SECRET in failed.errors[0]["error"]


def test_a_line_is_json_with_the_fields(written):
    stream = written("json")
    log = logging.getLogger("awa.test")
    log.warning("it happened", extra={"queue": "mail", "jobs": 3, "message_": "x", "level": "odd"})
    line = json.loads(stream.getvalue())
    assert line["message"] == "it happened"
    assert line["level"] == "warning"
    assert line["logger"] == "awa.test"
    assert (line["queue"], line["jobs"], line["level_"]) == ("mail", 3, "odd")
    assert line["time"].endswith("+00:00")


def test_values_that_are_not_plain_show_their_type_alone(written):
    stream = written("json")
    logging.getLogger("awa.test").info(
        "odd", extra={"given": {"a": SECRET}, "nan": float("nan"), "long": "x" * 9999,
                      "nested": [1, {"b": SECRET}]},
    )  # fmt: skip
    line = json.loads(stream.getvalue())
    assert (line["given"], line["nan"], line["nested"]) == ("dict", "nan", [1, "dict"])
    assert len(line["long"]) == logs.LONGEST_TEXT + 1


@pytest.mark.parametrize("log_format", ["json", "text"])
@pytest.mark.parametrize(
    "raised", [ValueError(SECRET), TerminalError(SECRET), DatabaseError(SECRET)]
)
def test_our_loggers_show_where_an_error_was_raised_and_not_what_it_says(
    written, log_format, raised
):
    stream = written(log_format)
    try:
        try:
            raise KeyError(SECRET)
        except KeyError as cause:
            raise raised from cause
    except Exception as error:
        logging.getLogger("awa.test").error("failed", exc_info=error)
    text = stream.getvalue()
    assert SECRET not in text
    assert type(raised).__name__ in text
    assert "KeyError" in text
    assert "test_our_loggers_show_where" in text


def test_errors_of_ours_and_loggers_of_others_say_everything(written):
    stream = written("json")
    logging.getLogger("awa.test").error("x", exc_info=ValidationError("queue name is too long"))
    logging.getLogger("app").error("y", exc_info=ValueError("their own words"))
    first, second = map(json.loads, stream.getvalue().splitlines())
    assert first["exception"] == "ValidationError: queue name is too long"
    assert second["exception"] == "ValueError: their own words"


def test_text_shows_no_control_characters(written):
    stream = written("text")
    logging.getLogger("awa.test").info("\x1b[31mred\nline", extra={"queue": "a\x07b", "n": 1})
    (line,) = stream.getvalue().splitlines()
    assert line.endswith(r"awa.test: \x1b[31mred\nline queue=a\x07b n=1")


def test_the_level_is_respected_and_json_is_the_default_for_files(written):
    stream = written("", AWA_LOG_LEVEL="warning")
    log = logging.getLogger("awa.test")
    log.info("quiet")
    log.warning("loud")
    assert json.loads(stream.getvalue())["message"] == "loud"
