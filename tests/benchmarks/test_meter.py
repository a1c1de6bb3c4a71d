import os
import subprocess
import sys

from bench.meter import Processes, Reading, foreign_cores

BURN = (
    "import subprocess, sys, time\n"
    "inner = 'import time\\nwhile time.process_time() < 0.2: pass'\n"
    "subprocess.run([sys.executable, '-c', inner], check=True)\n"
    "print('burnt', flush=True)\n"
    "sys.stdin.read()\n"
)


def test_a_process_tree_includes_the_children_that_have_ended() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", BURN], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "burnt\n"
        seen = Processes.now()
        process.communicate()
    assert seen.tree(process.pid) >= 0.2
    assert seen.tree(os.getpid()) >= seen.tree(process.pid)


def reading(at: float, bench: float, machine: float) -> Reading:
    return Reading(at, 0, 0, 0.0, 0.0, bench_cpu=bench, machine_cpu=machine)


def test_foreign_cores_are_what_the_machine_did_beyond_the_bench() -> None:
    assert foreign_cores(reading(0, 1, 10), reading(2, 2, 14)) == 1.5


def test_foreign_cores_are_never_negative() -> None:
    assert foreign_cores(reading(0, 0, 0), reading(1, 1.01, 1)) == 0
