"""What cannot work ends in a condition that says what to do, and disturbs nobody."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest

import awa_migrations
from cluster.databases import KubeDatabase
from cluster.handle import Namespace
from cluster.images import Images
from support.operating import ACCOUNT, CHART, Site, may
from support.postgres import Connect, Database
from support.waiting import eventually_sync

pytestmark = pytest.mark.timeout(300)

SOON = timedelta(seconds=30)


class Street:
    """A healthy Queue, and a bad one beside it."""

    def __init__(self, site: Site, database: Database) -> None:
        self.site = site
        self.database = database
        self._before: dict[str, Any] = {}

    async def begin(self) -> None:
        """Start an operator and let the healthy Queue come to rest."""
        await asyncio.to_thread(self.site.secret, self.database)
        await self.site.start().until_leads()
        await asyncio.to_thread(self.site.queue, "healthy", replicas=0)
        await self.site.until(
            lambda: self.site.condition("Ready", "healthy").get("status") == "True", SOON
        )
        self._before = self.site.get("deployment", "healthy-worker")

    async def says(self, kind: str, reason: str, *words: str, name: str = "bad") -> dict[str, Any]:
        """Wait until a condition of the bad Queue has a reason; its message has to have words."""

        def said() -> dict[str, Any]:
            found = self.site.condition(kind, name)
            return found if found.get("reason") == reason else {}

        found: dict[str, Any] = await self.site.until(said, SOON, f"{kind} says {reason}")
        for word in words:
            assert word in found["message"], found
        ready = self.site.condition("Ready", name)
        assert ready["status"] == "False"
        assert ready["message"] != ""
        return found

    def is_undisturbed(self) -> bool:
        """Whether the healthy Queue is as it was."""
        after = self.site.get("deployment", "healthy-worker")
        same = after["metadata"]["generation"] == self._before["metadata"]["generation"]
        return same and self.site.condition("Ready", "healthy")["status"] == "True"

    def put_secret(self, name: str, url: str, key: str = "url") -> None:
        """Write a Secret."""
        self.site.namespace.apply(
            {
                "apiVersion": "v1",
                "kind": "Secret",
                "metadata": {"name": name},
                "stringData": {key: url},
            }
        )


@pytest.fixture
async def street(site: Site, database: Database) -> Street:
    return Street(site, database)


def of(secret: str, key: str = "url") -> dict[str, Any]:
    return {"connectionSecretRef": {"name": secret, "key": key}}


async def test_a_secret_that_is_missing_is_named_and_used_as_soon_as_it_comes(street: Street):
    await street.begin()
    await asyncio.to_thread(street.site.queue, "bad", database=of("later"))
    await street.says("DatabaseReachable", "SecretNotFound", "later")
    assert street.is_undisturbed()
    await asyncio.to_thread(street.site.secret, street.database, "later")
    await street.site.until_deployed("bad", timedelta(seconds=10))


async def test_a_key_that_is_missing_is_named(street: Street):
    await street.begin()
    await asyncio.to_thread(street.site.queue, "bad", database=of("db", "dsn"))
    await street.says("DatabaseReachable", "SecretKeyMissing", "dsn")
    assert street.is_undisturbed()


async def test_a_text_that_is_no_address_is_said_without_showing_it_and_read_again(
    street: Street,
):
    await street.begin()
    await asyncio.to_thread(street.put_secret, "wrong", "mysql://app:hunter2@db/x")
    await asyncio.to_thread(street.site.queue, "bad", database=of("wrong"))
    said = await street.says("DatabaseReachable", "InvalidDSN", "wrong")
    assert "hunter2" not in said["message"]
    assert street.is_undisturbed()
    await asyncio.to_thread(street.put_secret, "wrong", street.database.dsn)
    await street.site.until_deployed("bad", timedelta(seconds=15))
    for operator in street.site.running:
        assert "hunter2" not in operator.log.read_text()


async def test_a_database_that_refuses_or_is_not_there_is_said(street: Street):
    await street.begin()
    port = "postgresql://app:hunter2@127.0.0.1:1/app"
    await asyncio.to_thread(street.put_secret, "refused", port)
    await asyncio.to_thread(street.site.queue, "bad", database=of("refused"))
    said = await street.says("DatabaseReachable", "ConnectionRefused")
    assert "hunter2" not in said["message"]
    other = street.database.dsn.replace(street.database.name, "not_there_at_all")
    await asyncio.to_thread(street.put_secret, "nowhere", other)
    await asyncio.to_thread(street.site.queue, "worse", database=of("nowhere"))
    await street.says("DatabaseReachable", "NoSuchDatabase", name="worse")
    assert street.is_undisturbed()


async def test_a_monitor_secret_that_leads_nowhere_disturbs_no_other_queue_of_its_database(
    street: Street,
):
    def sessions() -> list[Any]:
        asked = "select pid, backend_start from pg_stat_activity where datname = %s"
        with street.database.server.admin() as admin:
            of_operator = f"{asked} and application_name = 'awa operator'"
            return list(admin.execute(of_operator, [street.database.name]).fetchall())

    await street.begin()
    before, session = street.site.condition("DatabaseReachable", "healthy"), sessions()
    assert len(session) == 1
    nowhere = "postgresql://app:hunter2@127.0.0.1:1/app"
    await asyncio.to_thread(street.put_secret, "wrong", nowhere)
    await asyncio.to_thread(
        street.site.queue, "bad", database={"monitorSecretRef": {"name": "wrong"}}
    )
    await street.says("DatabaseReachable", "ConnectionRefused")
    await asyncio.to_thread(street.site.queue, "beside", replicas=0)
    await street.site.until(
        lambda: street.site.condition("DatabaseReachable", "beside").get("status") == "True", SOON
    )
    assert street.site.condition("DatabaseReachable", "healthy") == before
    assert sessions() == session
    assert street.is_undisturbed()


async def test_a_secret_that_may_not_be_read_is_said(street: Street):
    await street.begin()
    await asyncio.to_thread(_forbid_secrets_but, street.site, "db")
    await asyncio.to_thread(street.site.secret, street.database, "hidden")
    await asyncio.to_thread(street.site.queue, "bad", database=of("hidden"))
    await street.says("DatabaseReachable", "SecretForbidden", "hidden")
    assert street.is_undisturbed()


async def test_an_image_that_does_not_exist_is_said(street: Street):
    await street.begin()
    await asyncio.to_thread(street.site.queue, "bad", worker={"image": "awa.test/none:1"})
    await street.says("WorkersAvailable", "ImagePull")
    assert street.is_undisturbed()


async def test_a_quota_that_is_used_up_is_said_and_tried_again(street: Street):
    await street.begin()
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "full"},
        "spec": {"hard": {"count/deployments.apps": "1"}},
    }
    await asyncio.to_thread(street.site.namespace.apply, quota)
    await street.site.until(
        lambda: street.site.get("resourcequota", "full").get("status", {}).get("used"),
        SOON,
        "the quota is counted",
    )
    await asyncio.to_thread(street.site.queue, "bad", replicas=0)
    await street.says("Ready", "Refused", "quota")
    assert street.is_undisturbed()
    await asyncio.to_thread(street.site.namespace.kubectl, "delete", "resourcequota/full")
    await street.site.until_deployed("bad", timedelta(seconds=60))


async def test_a_template_that_the_api_server_refuses_is_said(street: Street):
    await street.begin()
    template = {"spec": {"containers": [{"name": "worker", "ports": [{"containerPort": 99999}]}]}}
    await asyncio.to_thread(
        street.site.queue,
        "bad",
        worker={"image": "awa.test/none:1", "podTemplate": template},
    )
    await street.says("Stalled", "TemplateInvalid", "99999")
    assert not street.site.get("deployment", "bad-worker")
    assert street.is_undisturbed()


async def test_a_command_that_exits_at_once_is_said_with_its_exit_code(
    street: Street, images: Images
):
    await street.begin()
    ends = {"image": images.worker.name, "command": ["python3", "-c", "raise SystemExit('lost')"]}
    await asyncio.to_thread(street.site.queue, "bad", worker=ends)
    await street.says("WorkersAvailable", "CrashLoop", "exit code 1", "lost")
    assert street.is_undisturbed()


async def test_pods_that_admission_refuses_are_said(street: Street):
    await street.begin()
    asks = {"securityContext": {"capabilities": {"add": ["NET_ADMIN"]}}}
    template = {"spec": {"containers": [{"name": "worker", **asks}]}}
    worker = {"image": "awa.test/none:1", "podTemplate": template}
    await asyncio.to_thread(street.site.queue, "bad", worker=worker)
    await street.says("WorkersAvailable", "Refused", "PodSecurity", "NET_ADMIN")
    assert street.is_undisturbed()


async def test_a_schema_newer_than_the_worker_is_said_and_left_as_it_is(
    street: Street, images: Images, kube_database: KubeDatabase, connect: Connect
):
    await street.begin()
    await awa_migrations.migrate(kube_database.dsn)
    session = await connect(kube_database.dsn)
    versions = "select version from awa.schema_version order by version"
    await session.execute(
        "insert into awa.schema_version (version, name, kind, checksum, duration)"
        " select 9999, 'later', kind, checksum, duration from awa.schema_version limit 1"
    )
    before = await session.fetch(versions)
    await asyncio.to_thread(street.site.namespace.apply, kube_database.secret("newer"))
    migration = {"mode": "Job", "command": ["awa", "migrate"]}
    worker = {"image": images.worker.name}
    await asyncio.to_thread(
        street.site.queue, "bad", worker=worker, migration=migration, database=of("newer")
    )
    await street.says("Stalled", "SchemaNewerThanWorker", "9999")
    assert not street.site.get("deployment", "bad-worker")
    assert await session.fetch(versions) == before
    assert street.is_undisturbed()


async def test_the_longest_name_works(street: Street):
    await street.begin()
    name = "q" * 52
    await asyncio.to_thread(street.site.queue, name, replicas=0)
    await street.site.until(
        lambda: street.site.condition("Ready", name).get("status") == "True", SOON, "it is ready"
    )
    assert street.site.get("deployment", f"{name}-worker")


async def test_the_younger_of_two_queues_that_serve_the_same_queue_waits_and_says_so(
    street: Street,
):
    await street.begin()
    await asyncio.to_thread(street.site.queue, "one", queueName="shared", replicas=0)
    await street.site.until(
        lambda: street.site.condition("Ready", "one").get("status") == "True",
        SOON,
        "the older one is ready",
    )
    await asyncio.to_thread(street.site.queue, "two", queueName="shared", replicas=0)
    await street.site.until(
        lambda: street.site.condition("Stalled", "two").get("reason") == "NameConflict",
        SOON,
        "the younger one names the conflict",
    )
    assert street.site.condition("Ready", "one")["status"] == "True"
    assert street.is_undisturbed()


async def test_a_spec_that_is_edited_all_the_time_ends_as_it_was_last_written(street: Street):
    await street.begin()
    for number in range(12):
        await asyncio.to_thread(
            street.site.queue, "bad", worker={"image": f"awa.test/none:{number}"}, replicas=0
        )

    def is_last() -> bool:
        found = street.site.get("deployment", "bad-worker")
        return bool(found) and "none:11" in str(found["spec"]["template"])

    await street.site.until(is_last, SOON, "the last spec was applied")
    await street.site.until_status("bad")
    assert street.is_undisturbed()


def _forbid_secrets_but(site: Site, name: str) -> None:
    """Render the chart's rights again, for one Secret only."""
    rendered = site.namespace.helm(
        "template", "awa", CHART, "--show-only", "templates/rbac.yaml",
        "--set", "fullnameOverride=awa", "--set", f"rbac.secretNames={{{name}}}",
    )  # fmt: skip
    site.namespace.apply(rendered)
    user, where = f"system:serviceaccount:{site.namespace.name}:{ACCOUNT}", site.namespace.name
    # The API server learns of it a moment later.
    eventually_sync(
        lambda: not may(site.cluster, user, "get", "secrets/hidden", where),
        SOON,
        what="other Secrets are closed",
    )


async def test_a_namespace_that_is_forbidden_holds_up_no_other_and_is_served_once_it_is_allowed(
    site: Site, other_namespace: Namespace, database: Database
):
    other = Site(other_namespace, site.folder, [])
    for one in (site, other):
        await asyncio.to_thread(one.secret, database)
    await asyncio.to_thread(site.queue, "mail")
    await asyncio.to_thread(other.queue, "reports")
    namespaces = f"{other_namespace.name},{site.namespace.name}"
    operator = await site.start(NAMESPACES=namespaces).until_leads()
    await site.until_deployed("mail")

    def degraded() -> float:
        reason = f"cannot list namespace {other_namespace.name}"
        return operator.metric("awa_operator_degraded", reason=reason)

    assert degraded() == 1
    assert not other.get("deployment", "reports-worker")
    await asyncio.to_thread(_give_rights_of, site.namespace, other_namespace)
    await other.until_deployed("reports")
    assert degraded() == 0


def _give_rights_of(one: Namespace, other: Namespace) -> None:
    """Let who may act in one namespace act in the other too."""
    for kind in ("Role", "RoleBinding"):
        for found in one.get(f"{kind.lower()}s")["items"]:
            kept = {key: found[key] for key in ("rules", "roleRef", "subjects") if key in found}
            name = {"name": found["metadata"]["name"]}
            version = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind}
            other.put({**version, "metadata": name, **kept})
