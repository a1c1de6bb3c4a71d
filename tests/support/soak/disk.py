"""A disk of the soak's own that can be full: a tmpfs, where we may mount one."""

import os
import subprocess
from contextlib import suppress
from pathlib import Path

SIZE = "1536m"
"""Room for the database twice, also when an hour of jobs waits for a prune that is held up."""
PIECES = (32 * 1024**2, 1024**2, 64 * 1024, 4096)


class Disk:
    """A mounted folder for tablespaces. `mounted` is False where mounting is not allowed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.mounted = False

    def mount(self) -> None:
        """Make the folder, and mount a small tmpfs on it if we may."""
        self.folder.mkdir()
        if os.geteuid() == 0:
            done = subprocess.run(
                ["mount", "-t", "tmpfs", "-o", f"size={SIZE},mode=0777", "soak", self.folder],
                capture_output=True, check=False,
            )  # fmt: skip
            self.mounted = done.returncode == 0

    def unmount(self) -> None:
        """Take the disk away, whoever still looks at it."""
        if self.mounted:
            subprocess.run(["umount", "--lazy", self.folder], check=True)
            self.mounted = False

    def fill(self) -> None:
        """Leave not a page free."""
        with (self.folder / "ballast").open("wb") as ballast:
            for piece in PIECES:
                with suppress(OSError):
                    for _ in iter(int, 1):
                        os.posix_fallocate(
                            ballast.fileno(), os.fstat(ballast.fileno()).st_size, piece
                        )

    @property
    def is_full(self) -> bool:
        """Whether nothing more can be written."""
        try:
            (self.folder / "probe").write_bytes(bytes(PIECES[-1]))
        except OSError:
            return True
        finally:
            (self.folder / "probe").unlink(missing_ok=True)
        return False

    def relieve(self) -> None:
        """Give back what `fill` took."""
        (self.folder / "ballast").unlink(missing_ok=True)
