"""`/healthz`, `/readyz` and `/metrics` over HTTP: what makes them fail, and what does not."""

import asyncio
import json
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from awa.http_pages import HttpServer
from awa_operator.health import HealthPages, LoopLag, Signs
from awa_operator.metrics import Metrics
from support.waiting import eventually

NOTHING = timedelta(0)
HEALTHY = Signs(
    loop_lag=lambda: NOTHING,
    stuck_for=lambda: NOTHING,
    deaf_for=lambda: NOTHING,
    silent_for=lambda: NOTHING,
    audits_failed=lambda: 0,
    synced=lambda: True,
    leads=lambda: False,
    watching=lambda: True,
    missing_fields=lambda: (),
)


def pages(signs: Signs = HEALTHY) -> HealthPages:
    return HealthPages(
        signs,
        Metrics().exposition,
        lag_limit=timedelta(seconds=20),
        stuck_limit=timedelta(seconds=180),
    )


@pytest.fixture
async def port() -> AsyncIterator[int]:
    made = pages()
    server = HttpServer({"/healthz": made.healthz, "/metrics": made.metrics})
    _, found = await server.start("127.0.0.1", 0)
    yield found
    server.close()


async def ask(port: int, request: bytes) -> tuple[int, bytes]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request)
    answer = await reader.read()
    writer.close()
    head, _, body = answer.partition(b"\r\n\r\n")
    return int(head.split()[1]), body


async def test_a_healthy_process_is_live(port):
    status, body = await ask(port, b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
    assert status == 200
    assert json.loads(body)["live"] is True


async def test_metrics_are_served_in_the_text_format(port):
    status, body = await ask(port, b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
    assert status == 200
    assert b"awa_operator_build_info{" in body


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (b"GET /nothing HTTP/1.1\r\n\r\n", 404),
        (b"POST /healthz HTTP/1.1\r\n\r\n", 405),
        (b"nonsense\r\n\r\n", 400),
        (b"GET /healthz HTTP/1.1\r\nX: " + b"x" * 20_000 + b"\r\n\r\n", 431),
    ],
)
async def test_everything_else_is_refused(port, request_, status):
    assert (await ask(port, request_))[0] == status


@pytest.mark.parametrize(
    "sick",
    [
        {"loop_lag": lambda: timedelta(seconds=21)},
        {"stuck_for": lambda: timedelta(seconds=181)},
        {"deaf_for": lambda: timedelta(seconds=91)},
        {"silent_for": lambda: timedelta(seconds=241)},
        {"audits_failed": lambda: 2},
    ],
)
async def test_what_a_restart_would_cure_makes_it_fail(sick):
    answer = await pages(replace(HEALTHY, **sick)).healthz()
    assert answer.status == 503
    assert json.loads(answer.body)["problems"] != []


@pytest.mark.parametrize(
    "other",
    [
        {"synced": lambda: False},
        {"watching": lambda: False},
        {"audits_failed": lambda: 1},
        {"missing_fields": lambda: ("spec.new",)},
    ],
)
async def test_what_a_restart_would_not_cure_does_not(other):
    assert (await pages(replace(HEALTHY, **other)).healthz()).status == 200


async def test_a_process_that_does_not_know_yet_what_there_is_is_not_ready():
    assert (await pages().readyz()).status == 200
    assert (await pages(replace(HEALTHY, synced=lambda: False)).readyz()).status == 503
    assert (await pages(replace(HEALTHY, watching=lambda: False)).readyz()).status == 503


async def test_a_standby_is_as_ready_as_the_leader_and_says_which_it_is():
    for leads in (True, False):
        answer = await pages(replace(HEALTHY, leads=lambda leads=leads: leads)).readyz()
        assert answer.status == 200
        document: dict[str, Any] = json.loads(answer.body)
        assert document["leader"] is leads


async def test_a_loop_that_stood_still_shows_while_it_does_and_after():
    observed: list[float] = []
    lag = LoopLag(observed.append)
    measuring = asyncio.create_task(lag.run())
    await asyncio.sleep(0)
    time.sleep(1.2)  # noqa: ASYNC251 - the loop is to stand still
    assert lag.lag() > timedelta(seconds=0.5)
    await eventually(lambda: observed)
    assert lag.lag() > timedelta(seconds=0.5)
    measuring.cancel()
