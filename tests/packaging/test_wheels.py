"""What the three distributions contain and claim."""

import subprocess
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
VERSION = (ROOT / "VERSION").read_text().strip()


def files_of(package: Path) -> set[str]:
    """Names, relative to the member, of the files of a package that belong to the repository."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", package.name],
        cwd=package.parent, capture_output=True, text=True, check=True,
    )  # fmt: skip
    return {name for name in listed.stdout.splitlines() if (package.parent / name).is_file()}


def test_a_wheel_contains_every_file_of_its_package(built):
    expected = files_of(ROOT / built.member / built.package)
    assert f"{built.package}/py.typed" in expected
    assert {name for name in built.names if name.startswith(f"{built.package}/")} == expected


def test_a_wheel_contains_nothing_beside_its_package(built):
    tops = {name.split("/")[0] for name in built.names}
    assert {top for top in tops if not top.endswith(".dist-info")} == {built.package}


def test_a_wheel_from_the_source_archive_is_the_same(built):
    assert set(zipfile.ZipFile(built.wheel_from_archive).namelist()) == built.names
    assert built.wheel_from_archive.name == built.wheel.name


def test_a_wheel_states_version_licence_and_python(built):
    metadata = built.metadata
    assert metadata["Version"] == VERSION
    assert metadata["License-Expression"] == "Apache-2.0"
    assert metadata["Requires-Python"] == ">=3.12"
    assert built.text_of("licenses/LICENSE") == (ROOT / "LICENSE").read_text()


def test_a_wheel_depends_on_names_and_never_on_a_path_or_an_address(built):
    required = built.metadata.get_all("Requires-Dist") or []
    assert required
    assert [requirement for requirement in required if "@" in requirement] == []


def test_sql_travels_with_the_wheel_that_runs_it(built):
    scripts = {name.rpartition("/")[0] for name in built.names if name.endswith(".sql")}
    assert (
        scripts
        >= {
            "migrations": {"awa_migrations/sql"},
            "worker": {"awa/_store/sql"},
            "operator": set(),
        }[built.member]
    )


def test_only_the_worker_installs_a_command(built):
    commands = any(name.endswith("entry_points.txt") for name in built.names)
    assert commands == (built.member == "worker")
    if commands:
        assert "awa = awa.cli:main" in built.text_of("entry_points.txt")
