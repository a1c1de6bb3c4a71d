"""Parts of the process side that need no whole worker."""

import signal
import subprocess
import sys

import pytest

from awa._runtime.pid_one import hidden_behind_shell
from awa._runtime.state_folder import open_state_folder
from awa.errors import ValidationError
from support.command.command import is_alive
from support.waiting import eventually_sync

WATCHED = """
import os, sys, time
from awa._runtime.parent import {how}
{call}
print("watching", flush=True)
time.sleep(600)
"""
PARENT = """
import os, subprocess, sys, time
reading, writing = os.pipe()
child = subprocess.Popen(
    [sys.executable, "-c", sys.argv[1], str(reading), str(os.getpid())], pass_fds=[reading],
    stdout=subprocess.PIPE, start_new_session=True,
)
os.close(reading)
assert child.stdout.readline() == b"watching\\n"
print(child.pid, flush=True)
time.sleep(600)
"""


@pytest.mark.parametrize(
    ("how", "call"),
    [
        ("watch_pipe", "watch_pipe(int(sys.argv[1]))"),
        ("die_with_parent", "die_with_parent(int(sys.argv[2]), int(sys.argv[1]))"),
    ],
)
def test_a_child_ends_with_its_parent_either_way(how, call):
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, WATCHED.format(how=how, call=call)],
        stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert parent.stdout is not None
    try:
        child = int(parent.stdout.readline())
        assert is_alive(child)
    finally:
        parent.kill()
        parent.wait()
        parent.stdout.close()
    eventually_sync(lambda: not is_alive(child), what="the end of the child")


def test_a_child_whose_parent_is_gone_already_ends_at_once():
    script = WATCHED.format(how="die_with_parent", call="die_with_parent(1, 0)")
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout) == (-signal.SIGKILL, "")


@pytest.mark.parametrize(
    ("name", "words", "hidden"),
    [
        ("sh", ["sh", "-c", "awa worker app; true"], True),
        ("bash", ["/bin/bash", "/entrypoint.sh"], True),
        ("bash", ["bash"], False),
        ("bash", ["-bash"], False),
        ("bash", ["bash", "--login"], False),
        ("systemd", ["/sbin/init", "splash"], False),
        ("tini", ["tini", "--", "awa", "worker", "app"], False),
        ("docker-init", ["/sbin/docker-init", "--", "sh", "-c", "awa worker"], False),
    ],
)
def test_a_shell_that_runs_us_as_pid_1_is_noticed(tmp_path, name, words, hidden):
    (tmp_path / "1").mkdir()
    (tmp_path / "1" / "comm").write_text(f"{name}\n")
    (tmp_path / "1" / "cmdline").write_bytes(b"".join(w.encode() + b"\0" for w in words))
    assert hidden_behind_shell(tmp_path) == (name if hidden else None)


def test_without_a_proc_nothing_is_known(tmp_path):
    assert hidden_behind_shell(tmp_path) is None


def test_the_state_folder_is_made_where_it_is_wanted(tmp_path):
    folder = open_state_folder(tmp_path / "a" / "b", {})
    assert folder == tmp_path / "a" / "b"
    assert list(folder.iterdir()) == []
    assert open_state_folder(folder, {}) == folder


def test_without_a_wish_it_is_one_of_this_user_and_the_same_each_time(tmp_path):
    environ = {"XDG_RUNTIME_DIR": str(tmp_path)}
    folder = open_state_folder(None, environ)
    assert folder == tmp_path / "awa"
    assert folder.stat().st_mode & 0o777 == 0o700
    assert open_state_folder(None, environ) == folder


def test_a_default_folder_that_others_can_write_to_is_refused(tmp_path):
    (tmp_path / "awa").mkdir(mode=0o700)
    (tmp_path / "awa").chmod(0o770)
    with pytest.raises(ValidationError, match="is not this user's alone"):
        open_state_folder(None, {"XDG_RUNTIME_DIR": str(tmp_path)})


def test_a_default_folder_that_is_a_link_is_refused(tmp_path):
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    (tmp_path / "awa").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ValidationError, match="is not this user's alone"):
        open_state_folder(None, {"XDG_RUNTIME_DIR": str(tmp_path)})


def test_a_file_in_its_place_is_refused(tmp_path):
    (tmp_path / "state").touch()
    with pytest.raises(ValidationError, match="cannot be used"):
        open_state_folder(tmp_path / "state", {})
