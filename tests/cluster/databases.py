"""PostgreSQL that pods reach: a server of the test run that listens towards the cluster too."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from psycopg import sql

from cluster.handle import Cluster
from support.postgres import FAST_SETTINGS, SUPERUSER, Database, Server
from support.run import Run

type MakeKubeDatabase = Callable[..., "KubeDatabase"]
type OwnServer = Callable[[Cluster], "KubeDatabase"]
"""Starts a server for a cluster's pods that a test may stop; returns a database of it."""


@dataclass(frozen=True, slots=True)
class KubeDatabase:
    """A database as this machine and as pods see it. From pods a password is needed."""

    database: Database
    host_address: str
    password: str

    @property
    def name(self) -> str:
        """Its name."""
        return self.database.name

    @property
    def dsn(self) -> str:
        """Its address on this machine."""
        return self.database.dsn

    @property
    def pod_dsn(self) -> str:
        """Its address in pods, with user and password."""
        server = f"{self.host_address}:{self.database.server.port}"
        return f"postgresql://{SUPERUSER}:{self.password}@{server}/{self.name}"

    def secret(self, name: str, key: str = "url") -> dict[str, Any]:
        """Return a Secret with its address in pods."""
        return {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": name},
            "stringData": {key: self.pod_dsn},
        }


def settings_for(cluster: Cluster) -> dict[str, str]:
    """Return the settings of a fast server that listens towards the cluster too."""
    return {**FAST_SETTINGS, "listen_addresses": f"127.0.0.1,{cluster.host_address}"}


def start_for_pods(run: Run, server: Server, password: str) -> int:
    """Start a server that outlives this process of the run; return its port."""
    run.ensure_keeper()
    server.create()
    with (server.data / "pg_hba.conf").open("a") as rules:
        rules.write("host all all 0.0.0.0/0 scram-sha-256\n")
    server.start()
    with server.admin() as admin:
        statement = sql.SQL("alter role {} password {}")
        admin.execute(statement.format(sql.Identifier(SUPERUSER), sql.Literal(password)))
    server.leave_to_keeper()
    return server.port
