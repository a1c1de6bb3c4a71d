import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import asyncpg
import psutil
import pytest
from bench.cluster import Cluster, NoServerError, find_binaries, running_cluster

ROOT = Path(__file__).parents[2]

pytestmark = [pytest.mark.postgres, pytest.mark.slow]


@pytest.fixture
def parent() -> Iterator[Path]:
    """A folder that the server's unprivileged user can pass through.

    Not below pytest's own: every test session closes that to others.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        yield folder


async def settings_of(cluster: Cluster, *names: str) -> list[str]:
    connection = await asyncpg.connect(cluster.dsn("postgres"))
    try:
        return [await connection.fetchval("select current_setting($1)", name) for name in names]
    finally:
        await connection.close()


async def test_the_server_is_durable_and_leaves_nothing_behind(parent: Path) -> None:
    async with running_cluster(find_binaries(), parent) as cluster:
        durable = await settings_of(
            cluster, "fsync", "synchronous_commit", "full_page_writes", "autovacuum"
        )
        assert psutil.pid_exists(cluster.pid)
    assert durable == ["on"] * 4
    assert not psutil.pid_exists(cluster.pid)
    assert os.listdir(parent) == []


async def test_the_server_ends_when_the_benchmark_fails(parent: Path) -> None:
    async def fail() -> None:
        async with running_cluster(find_binaries(), parent):
            raise RuntimeError("broken")

    with pytest.raises(RuntimeError, match="broken"):
        await fail()
    assert os.listdir(parent) == []


def test_a_folder_without_a_server_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NoServerError, match="install PostgreSQL 15 or later"):
        find_binaries(str(tmp_path))


@pytest.fixture
def benchmark(parent: Path) -> Iterator[subprocess.Popen[str]]:
    """A benchmark that would run for minutes."""
    command = [sys.executable, "-m", "bench", "latency", "--contenders", "awa"]
    with subprocess.Popen(
        [*command, "--tmp", str(parent)], cwd=ROOT, stdout=subprocess.PIPE, text=True
    ) as process:
        yield process
        process.kill()


def test_a_benchmark_that_is_told_to_end_leaves_nothing_behind(
    benchmark: subprocess.Popen[str], parent: Path
) -> None:
    assert benchmark.stdout is not None
    assert json.loads(benchmark.stdout.readline())["record"] == "machine"
    below = psutil.Process(benchmark.pid).children(recursive=True)
    assert below
    benchmark.terminate()
    assert benchmark.wait(timeout=60) == 130
    assert psutil.wait_procs(below, timeout=10)[1] == []
    assert os.listdir(parent) == []
