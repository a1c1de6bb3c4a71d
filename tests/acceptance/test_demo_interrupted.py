"""Ctrl-C at any moment of the demo leaves no process behind, and data that can be used."""

import json
import signal

import pytest

from acceptance.commands import Command

JOBS = "600"
"""So many that seconds of work are left when the first progress is told."""


def data_are_being_made(demo: Command) -> bool:
    return any((demo.folder / ".awa").glob("postgres/*/unfinished"))


def server_starts(demo: Command) -> bool:
    return any((demo.folder / ".awa").glob("postgres/*/data/postmaster.pid"))


def images_are_made(demo: Command) -> bool:
    return len(list((demo.folder / ".awa").glob("demo/images/image-*"))) > 5


def it_enqueues(demo: Command) -> bool:
    return "damaged ones among them" in demo.said


def a_worker_starts(demo: Command) -> bool:
    return "0 → " in demo.said


def it_works(demo: Command) -> bool:
    return "running jobs: " in demo.said


def it_stops(demo: Command) -> bool:
    return "Draining" in demo.said


@pytest.mark.parametrize(
    ("moment", "codes"),
    [
        (data_are_being_made, {130}),
        (server_starts, {130}),
        (images_are_made, {130}),
        (it_enqueues, {130}),
        (a_worker_starts, {130}),
        (it_works, {130}),
        (it_stops, {0}),
    ],
    ids=lambda value: value.__name__ if callable(value) else "",
)
def test_ctrl_c_while(start, run, nothing_left, moment, codes):
    demo = start("demo", "--jobs", JOBS if moment is it_works else "120")
    demo.until(lambda: moment(demo), moment.__name__)
    demo.signal_group(signal.SIGINT)
    assert demo.code() in codes
    assert "Traceback" not in demo.said
    nothing_left()
    again = start("demo", "--jobs", "8")
    assert again.code() == 0
    assert "4 completed, 4 failed of 8 jobs" in again.said
    (counts,) = json.loads(run("queue", "list", "--json").stdout)
    assert counts["available"] == counts["running"] == counts["retryable"] == 0


def test_a_second_ctrl_c_ends_it_at_once(start, nothing_left):
    demo = start("demo", "--jobs", JOBS)
    demo.until(lambda: it_works(demo), "it works")
    demo.signal_group(signal.SIGINT)
    demo.until_said("Draining")
    demo.signal_group(signal.SIGINT)
    assert demo.code() == 130
    nothing_left()


def test_closing_the_terminal_stops_it(start, nothing_left):
    demo = start("demo", "--jobs", "120", terminal=True).until_said("running jobs")
    demo.hang_up()
    demo.code()
    nothing_left()
