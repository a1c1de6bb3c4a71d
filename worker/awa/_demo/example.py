"""Where the thumbnails example lies: beside the checkout that this is installed from, or here."""

from importlib.util import find_spec
from pathlib import Path

from awa.errors import AwaError

EXAMPLE = Path("examples") / "thumbnails"
MANIFEST = "queue.yaml"
IMAGES = "images.py"


class ExampleMissing(AwaError):
    """The demo cannot run here: its files, or the library that they need, are not there."""


def find_example() -> Path:
    """Return the folder of the example. Raises ExampleMissing."""
    here = Path.cwd()
    checkout = Path(__file__).resolve().parents[3]
    for root in (checkout, here, *here.parents):
        folder = root / EXAMPLE
        if (folder / MANIFEST).is_file() and (folder / IMAGES).is_file():
            return _usable(folder)
    raise ExampleMissing(
        f"the demo runs {EXAMPLE} of Awa's source, which is neither here nor beside this "
        "installation; get the source, go to its folder and run `make demo`"
    )


def _usable(folder: Path) -> Path:
    if find_spec("PIL") is None:
        raise ExampleMissing(
            "the demo's images need Pillow, which is not installed: run `make demo` in the "
            "checkout, or `pip install pillow`"
        )
    return folder
