"""Real image files to work on: made from a seed, or found on this machine.

    python images.py FOLDER --count 300 --damaged 12 --seed 1    make files, list them as JSON lines
    python images.py --find 100 /usr/share                       list files that are there already

The same arguments make the same pictures; another version of Pillow may write other bytes.
"""

import argparse
import hashlib
import json
import os
import random
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

from PIL import Image, ImageDraw

SHORTEST_SIDE, LONGEST_SIDE = 16, 900
# Format, suffix, and how to save it.
KINDS: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("PNG", ".png", {"compress_level": 3}),
    ("JPEG", ".jpg", {"quality": 85}),
    ("GIF", ".gif", {}),
    ("WEBP", ".webp", {"quality": 80, "method": 0}),
    ("BMP", ".bmp", {}),
    ("TIFF", ".tif", {}),
)
COLOURS = 3


@dataclass(frozen=True, slots=True)
class MadeImage:
    """A file and what is true of it. `damage` says what was done to it; None for a good one.

    Width, height and format are those of the picture before the damage, `bytes` and `digest`
    (SHA-256) those of the file as it is.
    """

    path: Path
    format: str
    width: int
    height: int
    bytes: int
    digest: str
    damage: str | None


type Damage = Callable[[bytes, random.Random], bytes]


def truncated(data: bytes, chance: random.Random) -> bytes:
    """A download that broke off."""
    return data[: int(len(data) * chance.uniform(0.3, 0.8))]


def wrong_magic(data: bytes, chance: random.Random) -> bytes:
    """A first block that was overwritten."""
    return chance.randbytes(16).replace(b"\xff\xd8", b"\x00\x00") + data[16:]


def emptied(_data: bytes, _chance: random.Random) -> bytes:
    """A file that was opened for writing and nothing more."""
    return b""


def garbage_inside(data: bytes, chance: random.Random) -> bytes:
    """A bad block in the middle of the disk."""
    length = max(8, len(data) // 10)
    start = len(data) // 2 - length // 2
    return data[:start] + chance.randbytes(length) + data[start + length :]


def web_page(_data: bytes, _chance: random.Random) -> bytes:
    """What a server sent instead of the picture."""
    return b"<!doctype html>\n<title>404 Not Found</title>\n<h1>Not Found</h1>\n"


def unchanged(data: bytes, _chance: random.Random) -> bytes:
    """Good data; the file gets the suffix of another format."""
    return data


# What is done, to which formats, how. Garbage goes unseen where a format has no checksums (a JPEG
# just shows other colours), so it goes into the one that has.
DAMAGES: tuple[tuple[str, tuple[str, ...], Damage], ...] = (
    ("truncated", ("PNG", "JPEG", "GIF", "WEBP", "BMP", "TIFF"), truncated),
    ("wrong magic", ("PNG", "JPEG", "GIF", "WEBP", "BMP", "TIFF"), wrong_magic),
    ("empty", ("PNG", "JPEG", "GIF", "WEBP", "BMP", "TIFF"), emptied),
    ("garbage inside", ("PNG",), garbage_inside),
    ("web page", ("PNG", "JPEG", "GIF", "WEBP"), web_page),
    ("wrong extension", ("PNG", "JPEG", "GIF", "WEBP", "BMP", "TIFF"), unchanged),
)


def make_images(
    folder: Path, count: int = 300, damaged: int = 12, seed: int = 1
) -> list[MadeImage]:
    """Write `count` image files to `folder`, `damaged` of them spread among the others.

    Formats, sizes and pictures vary; every kind of damage occurs when `damaged` is 6 or more.
    Files of an earlier run with the same names are overwritten. Raises ValueError when more are to
    be damaged than made.
    """
    if not 0 <= damaged <= count:
        raise ValueError(f"{damaged} of {count} images cannot be damaged")
    folder.mkdir(parents=True, exist_ok=True)
    order = random.Random(seed)  # noqa: S311 - pictures, no secrets
    to_damage = {at: number for number, at in enumerate(order.sample(range(count), damaged))}
    return [_make(folder, number, seed, to_damage.get(number)) for number in range(count)]


def find_images(folders: Sequence[Path], limit: int = 300) -> list[Path]:
    """Return at most `limit` readable, non-empty image files below the folders, by their suffix.

    Symbolic links are not followed and closed folders are passed over. Nothing is known of what is
    in the files.
    """
    suffixes = {".jpeg", ".tiff", *(suffix for _, suffix, _ in KINDS)}
    found: list[Path] = []
    for path in _files_below(folders):
        if len(found) == limit:
            break
        if path.suffix.lower() in suffixes and _has_content(path):
            found.append(path)
    return found


def _make(folder: Path, number: int, seed: int, damage_number: int | None) -> MadeImage:
    chance = random.Random(f"{seed}/{number}")  # noqa: S311 - pictures, no secrets
    damage: str | None = None
    spoil: Damage = unchanged
    kinds = KINDS
    if damage_number is not None:
        damage, formats, spoil = DAMAGES[damage_number % len(DAMAGES)]
        kinds = tuple(kind for kind in KINDS if kind[0] in formats)
    name, suffix, how = kinds[number % len(kinds)]
    picture = _picture(chance)
    data = spoil(_encoded(picture, name, how), chance)
    if damage == "wrong extension":
        suffix = chance.choice([other for _, other, _ in KINDS if other != suffix])
    path = folder / f"image-{number:04}{suffix}"
    path.write_bytes(data)
    digest = hashlib.sha256(data).hexdigest()
    return MadeImage(path, name, picture.width, picture.height, len(data), digest, damage)


def _picture(chance: random.Random) -> Image.Image:
    """Soft colours with some shapes: compresses like a photograph, and is quickly made."""
    size = (_side(chance), _side(chance))
    seeds = Image.frombytes("RGB", (6, 6), chance.randbytes(6 * 6 * COLOURS))
    picture = seeds.resize(size, Image.Resampling.BICUBIC)
    draw = ImageDraw.Draw(picture)
    for _ in range(chance.randint(3, 12)):
        x, y = chance.randrange(size[0]), chance.randrange(size[1])
        box = (x, y, x + size[0] // 5, y + size[1] // 5)
        colour = tuple(chance.randbytes(COLOURS))
        chance.choice([draw.ellipse, draw.rectangle])(box, fill=colour)
    return picture


def _side(chance: random.Random) -> int:
    """Return a length; small and large ones are equally likely on a scale of doubling."""
    return int(SHORTEST_SIDE * (LONGEST_SIDE / SHORTEST_SIDE) ** chance.random())


def _encoded(picture: Image.Image, name: str, how: dict[str, Any]) -> bytes:
    if name == "GIF":
        picture = picture.convert("P")  # choosing the best 256 colours takes a hundred times longer
    written = BytesIO()
    picture.save(written, name, **how)
    return written.getvalue()


def _files_below(folders: Sequence[Path]) -> Iterator[Path]:
    for folder in folders:
        for parent, inner, names in os.walk(folder):
            inner.sort()
            yield from (Path(parent, name) for name in sorted(names))


def _has_content(path: Path) -> bool:
    return (
        not path.is_symlink()
        and path.is_file()
        and os.access(path, os.R_OK)
        and path.stat().st_size > 0
    )


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folders", nargs="+", type=Path, metavar="FOLDER")
    parser.add_argument("--count", type=int, default=300, help="files to make (default: 300)")
    parser.add_argument("--damaged", type=int, default=12, help="of them damaged (default: 12)")
    parser.add_argument("--seed", type=int, default=1, help="another number, other pictures")
    parser.add_argument(
        "--find", type=int, metavar="N", help="list N files that are below the folders instead"
    )
    return parser.parse_args()


def main() -> None:
    """Print one JSON line for each file."""
    chosen = _arguments()
    if chosen.find is not None:
        lines = [{"path": str(path)} for path in find_images(chosen.folders, chosen.find)]
    else:
        made = make_images(chosen.folders[0], chosen.count, chosen.damaged, chosen.seed)
        lines = [{**asdict(image), "path": str(image.path)} for image in made]
    sys.stdout.writelines(json.dumps(line) + "\n" for line in lines)


if __name__ == "__main__":
    main()
