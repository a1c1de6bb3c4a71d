"""P47: passwords with special characters reach the server whole; a rotated Secret is used."""

import asyncio
import base64
import json
import secrets
from datetime import timedelta
from urllib.parse import quote

import pytest

from awa_operator.dsn import Dsn, DsnProblem, read_dsn
from awa_operator.labels import SECRET_HASH
from awa_operator.observed import DatabaseProblem, SecretState
from support.operating import Site
from support.waiting import eventually
from support.watched import served, sessions_of, watching

SIGNS = "@#% '\\/?:&=+"


@pytest.fixture
def server(make_server):
    """A server that asks everybody who comes by TCP for a password."""
    made = make_server(fsync="off")
    rules = made.data / "pg_hba.conf"
    rules.write_text("local all all trust\nhost all all 127.0.0.1/32 scram-sha-256\n")
    made.restart()
    return made


def set_password(server, password: str) -> None:
    with server.admin() as admin:
        if admin.execute("select from pg_roles where rolname = 'app'").fetchone() is None:
            admin.execute("create role app login")
        admin.execute("select set_config('p.p', %s, false)", (password,))
        admin.execute("do $$ begin execute format('alter role app password %L',"
                      " current_setting('p.p')); end $$")  # fmt: skip


def secret(server, password: str) -> dict[str, str]:
    url = f"postgresql://app:{password}@127.0.0.1:{server.port}/postgres"
    return {"url": base64.b64encode(url.encode()).decode()}


async def problem_with(watched, name: str, dsn: Dsn) -> DatabaseProblem | None:
    watched.serve(name, served(dsn.value, identity=name))
    view = await watched.sees(name, lambda view: True)
    watched.serve(name, None)
    return view.problem


async def test_an_encoded_sign_is_part_of_the_password(server):
    async with watching() as watched:
        for sign in SIGNS:
            password = f"a{sign}b{sign}c{secrets.token_hex(4)}"
            set_password(server, password)
            found = read_dsn("db", "url", secret(server, quote(password, safe="")))
            assert isinstance(found, Dsn)
            assert await problem_with(watched, f"encoded {sign}", found) is None


async def test_a_sign_as_it_is_is_read_whole_or_refused_with_advice(server):
    refused, misread = set(), set()
    async with watching() as watched:
        for sign in SIGNS:
            password = f"a{sign}b{secrets.token_hex(4)}"
            set_password(server, password)
            found = read_dsn("db", "url", secret(server, password))
            if isinstance(found, DsnProblem):
                refused.add(sign)
                assert found.state is SecretState.INVALID_DSN
                assert f"{sign} as {quote(sign, safe='')}" in found.message
                assert password not in found.message
            elif (problem := await problem_with(watched, f"as it is {sign}", found)) is not None:
                assert problem is DatabaseProblem.AUTHENTICATION_FAILED
                misread.add(sign)
    assert refused == set("@#/?")
    # Nobody can tell a per cent sign and two hexadecimal digits from an encoded sign.
    assert misread == {"%"}


async def test_a_rotated_password_is_used_as_soon_as_the_secret_is_read(server):
    set_password(server, "one")
    old, new = (
        f"postgresql://app:{word}@127.0.0.1:{server.port}/postgres" for word in ("one", "two")
    )
    rarely = {"identity": "a", "poll_interval": timedelta(seconds=30)}
    async with watching() as watched:
        watched.serve("a", served(old, **rarely))
        await watched.sees("a", lambda view: view.is_reachable)
        set_password(server, "two")
        with server.admin() as admin:
            admin.execute(
                "select pg_terminate_backend(pid) from pg_stat_activity where usename = 'app'"
            )
        # The end of the session is noticed by itself, and the reason is the one to act on.
        refused = await watched.sees("a", lambda view: not view.is_reachable)
        assert refused.problem is DatabaseProblem.AUTHENTICATION_FAILED
        watched.serve("a", served(new, **rarely))
        await watched.sees("a", lambda view: view.is_reachable, timedelta(seconds=10))
        await eventually(lambda: sessions_of(server) == 1)


def test_p47_however_often_a_password_was_refused_the_secret_is_read_again_within_eight_seconds(
    world,
):
    for _ in range(10):
        world.lose_database(DatabaseProblem.AUTHENTICATION_FAILED)
        assert world.plan().requeue_after <= timedelta(seconds=8)


async def test_p47_an_operator_reconnects_within_ten_seconds_of_a_rotation(site: Site, server):
    def of(password: str) -> dict[str, str]:
        return {"url": f"postgresql://app:{password}@127.0.0.1:{server.port}/postgres"}

    def put(password: str) -> None:
        secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "db"}}
        site.namespace.put({**secret, "stringData": of(password)})

    set_password(server, "one")
    await asyncio.to_thread(put, "one")
    operator = await site.start().until_leads()
    await asyncio.to_thread(site.queue, replicas=0)
    await site.until(lambda: site.condition("DatabaseReachable").get("status") == "True")
    set_password(server, "two")
    with server.admin() as admin:
        admin.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity where usename = 'app'"
        )
    refusals = "awa_operator_db_probe_failures_total"
    await site.until(lambda: operator.metric(refusals) >= 5, what="refused again and again")
    assert site.condition("DatabaseReachable")["reason"] == "AuthenticationFailed"
    await asyncio.to_thread(put, "two")
    await site.until(
        lambda: site.condition("DatabaseReachable")["status"] == "True",
        timedelta(seconds=10), "the operator to use the new password",
    )  # fmt: skip


async def test_p47_workers_that_are_not_ready_get_a_rotated_secret_though_our_session_goes_on(
    site: Site, database
):
    await asyncio.to_thread(site.secret, database)
    await site.start().until_leads()
    await asyncio.to_thread(site.queue, replicas=1)
    before = (await site.until_deployed())["spec"]["template"]["metadata"]["annotations"]
    await site.until(lambda: site.condition("DatabaseReachable").get("status") == "True")
    rotated = base64.b64encode(f"{database.dsn}?application_name=new".encode()).decode()
    patch = json.dumps({"data": {"url": rotated}})
    await asyncio.to_thread(site.namespace.kubectl, "patch", "secret", "db", "-p", patch)

    def has_moved() -> bool:
        site.namespace.kubectl(
            "delete", "pods", "--all", "--wait=false"
        )  # so that something happens
        template = site.get("deployment", "mail-worker")["spec"]["template"]
        return template["metadata"]["annotations"][SECRET_HASH] != before[SECRET_HASH]

    await site.until(has_moved, timedelta(seconds=20), "the template to name the new Secret")
