"""Where the files of the embedded server lie.

Usually everything lies in `postgres/` inside the folder that was asked for (`.awa`). As root the
server runs as another user, who may be unable to enter that folder, for example in a checkout
under a private home. Permissions of folders that exist already are never changed; then the files
get a home of their own in the store (`/var/lib/awa`), and a pointer file in `.awa` names it. So:

- `rm -r .awa` gives an empty database in both cases (the old home stays in the store, unused);
- a folder that was moved keeps its database; a folder that was copied with its pointer file gets
  a home of its own, since two folders never share one database.

    <home>/                 ours; entered, but not listed, by the server's user
        lock  password  owner.json  server.log  service.conf  socket-folder
        <major>/            the server user's alone
            data/           the database
            run/            the socket, unless its path would be too long for one
"""

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from errno import ENOSPC
from pathlib import Path

from awa._local import account
from awa._local.account import ServerUser
from awa._local.errors import DataUnreachable, NoSpace

POINTER = "postgres.location"
BACK_POINTER = "folder"


@dataclass(frozen=True, slots=True)
class Place:
    """A home, and who runs the server there (None: we do)."""

    home: Path
    user: ServerUser | None
    note: str | None = None
    """One sentence for the person at the terminal when the home is not where one would look."""

    def major_folder(self, major: int) -> Path:
        """Return the folder of one major version; the server's user owns it."""
        return self.home / str(major)

    def data(self, major: int) -> Path:
        """Return the data folder of one major version."""
        return self.major_folder(major) / "data"

    def data_majors(self) -> tuple[int, ...]:
        """Return the major versions for which there are data."""
        return data_majors(self.home)


def data_majors(home: Path) -> tuple[int, ...]:
    """Return the major versions for which `home` has data; the data say so themselves."""
    return tuple(int(_text(file)) for file in home.glob("[0-9]*/data/PG_VERSION"))


def locate(folder: Path, store: Path) -> Place:
    """Return the place for `folder`, making what is missing.

    Raises DataUnreachable, NoSpace or ServerUserMissing.
    """
    with local_errors(folder):
        folder = folder.resolve()
        _make_folder(folder)
        with _alone_in(folder):
            return (
                _locate_as_root(folder, store.absolute())
                if account.running_as_root()
                else _locate(folder)
            )


@contextmanager
def local_errors(folder: Path) -> Iterator[None]:
    """Turn errors of the file system into ours."""
    try:
        yield
    except OSError as error:
        if error.errno == ENOSPC:
            raise NoSpace(folder, free_bytes(folder)) from error
        where = error.filename or folder
        raise DataUnreachable(
            f"cannot use {where} for the database: {error.strerror or error}; "
            "run as the user who made it, or use another folder"
        ) from error


def make_folder(folder: Path, mode: int) -> None:
    """Make a folder, and those above it, with exactly this mode; what exists stays as it is."""
    missing = [each for each in (folder, *folder.parents) if not each.exists()]
    for each in reversed(missing):
        each.mkdir(exist_ok=True)
        each.chmod(mode)  # whatever the umask says


def free_bytes(folder: Path) -> int:
    """Return the space that is left for ordinary users where `folder` is or would be."""
    existing = next(each for each in (folder, *folder.parents) if each.exists())
    return shutil.disk_usage(existing).free


def _locate(folder: Path) -> Place:
    home = _read_pointer(folder) or folder / "postgres"
    make_folder(home, 0o700)
    if home.stat().st_uid != os.geteuid():
        raise DataUnreachable(
            f"the database in {home} belongs to another user ({_name_of_owner(home)}); "
            "run as that user, or use another folder"
        )
    return Place(home, None)


def _locate_as_root(folder: Path, store: Path) -> Place:
    home = _read_pointer(folder)
    if home is not None:
        return _away(folder, home, _user_for(home))
    home = folder / "postgres"
    user = _user_for(home)
    if account.can_enter(user, folder):
        make_folder(home, 0o711)
        return Place(home, user)
    if data_majors(home):
        raise DataUnreachable(
            f"the database in {home} exists, but user {user.name}, who runs it, cannot enter "
            f"{folder} any more; give the folders above it back their permissions"
        )
    return _away(folder, _new_home(folder, store, user), user)


def _away(folder: Path, home: Path, user: ServerUser) -> Place:
    return Place(
        home,
        user,
        note=f"The database lies in {home}, because user {user.name}, who runs it, "
        f"cannot enter {folder}.",
    )


def _user_for(home: Path) -> ServerUser:
    """Return who has run the server here before, else the usual account."""
    for major in data_majors(home):
        return account.owner_of(home / str(major))
    return account.default_user()


def _new_home(folder: Path, store: Path, user: ServerUser) -> Path:
    make_folder(store, 0o755)
    home = Path(tempfile.mkdtemp(prefix=f"{folder.parent.name or 'root'}-", dir=store))
    home.chmod(0o711)
    if not account.can_enter(user, home):
        home.rmdir()
        raise DataUnreachable(
            f"user {user.name}, who has to run the server, can enter neither {folder} nor {store}; "
            "set AWA_POSTGRES_STORE to a folder that it can enter, or run as an ordinary user"
        )
    _point(folder, home)
    return home


def _point(folder: Path, home: Path) -> None:
    (home / BACK_POINTER).write_text(f"{folder}\n")
    (folder / POINTER).write_text(f"{home}\n")


def _read_pointer(folder: Path) -> Path | None:
    """Return the home that is `folder`'s own, wherever the folder has been moved to."""
    pointer = folder / POINTER
    if not pointer.exists():
        return None
    home = Path(_text(pointer))
    if not home.is_dir():
        pointer.unlink()  # the store was cleaned: start anew
        return None
    if not os.access(home / BACK_POINTER, os.R_OK):
        return home
    served = Path(_text(home / BACK_POINTER))
    if served != folder:
        if served.joinpath(POINTER).exists() and _text(served / POINTER) == str(home):
            pointer.unlink()  # `folder` is a copy of `served`, which keeps its home
            return None
        _point(folder, home)
    return home


@contextmanager
def _alone_in(folder: Path) -> Iterator[None]:
    """Wait until nobody else looks for the place of `folder`: two would make one each."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _make_folder(folder: Path) -> None:
    if folder.is_dir():
        return
    folder.mkdir(parents=True, exist_ok=True)  # somebody else may be as far as this
    # State of one machine: never to be committed.
    (folder / ".gitignore").write_text("*\n")


def _text(file: Path) -> str:
    return file.read_text().strip()


def _name_of_owner(path: Path) -> str:
    try:
        return path.owner()
    except KeyError:
        return str(path.stat().st_uid)
