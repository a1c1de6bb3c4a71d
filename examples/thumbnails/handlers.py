"""Thumbnails: one job an image file. `awa worker handlers` runs this module's jobs.

Each job reads its file once, decodes all of it, records what it is (the job's output), and writes
a thumbnail if it was told where to. Jobs run at least once, so running one twice must do no harm:
a thumbnail is named after the digest of its image and put in place as a whole.
"""

import hashlib
import os
import struct
import tempfile
import zlib
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

from PIL import Image, ImageSequence, UnidentifiedImageError

import awa

# Suffixes by format, and at the same time everything that is decoded: Pillow knows many more
# formats, which nobody here has asked for.
SUFFIXES = {
    "PNG": (".png",),
    "JPEG": (".jpg", ".jpeg"),
    "GIF": (".gif",),
    "WEBP": (".webp",),
    "BMP": (".bmp",),
    "TIFF": (".tif", ".tiff"),
}
MAX_FILE_BYTES = 64 << 20
MAX_PIXELS = 50_000_000
THUMBNAIL_PIXELS = (256, 256)

# What Pillow raises for data that it cannot decode.
DECODING_ERRORS = (
    OSError, SyntaxError, ValueError, EOFError, struct.error, zlib.error, LookupError, TypeError,
    OverflowError, Image.DecompressionBombError,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Thumbnail:
    """What a job is given: an image file, and the folder for its thumbnail (None: make none)."""

    path: str
    into: str | None = None


@dataclass(frozen=True, slots=True)
class ImageFacts:
    """What a job records. `digest` is the SHA-256 of the file, `bytes` its size."""

    width: int
    height: int
    bytes: int
    digest: str
    format: str


class DamagedImage(ValueError):
    """The data are no image that can be shown whole. Trying again would not help."""


def image_facts(data: bytes, suffix: str) -> ImageFacts:
    """Decode every pixel of an image from a file with this suffix, and say what it is.

    Raises DamagedImage with the reason: no data, an unknown format, another format than the suffix
    says, broken or missing data, or more pixels than `MAX_PIXELS`.
    """
    if not data:
        raise DamagedImage("the file is empty")
    try:
        with _open(data) as image:
            found, (width, height) = image.format or "", image.size
    except UnidentifiedImageError:
        raise DamagedImage(f"not an image in {_known_formats()}: {_start_of(data)}") from None
    except DECODING_ERRORS as error:
        raise DamagedImage(f"the image's header is broken: {error}") from error
    if width * height > MAX_PIXELS:
        raise DamagedImage(f"{width} by {height} pixels are too many, the limit is {MAX_PIXELS}")
    _decode(data, found)
    if suffix.lower() not in SUFFIXES[found]:
        raise DamagedImage(f"named {suffix or 'without a suffix'}, but the data are {found}")
    return ImageFacts(width, height, len(data), hashlib.sha256(data).hexdigest(), found)


def thumbnail_of(data: bytes) -> bytes:
    """Return a PNG of at most 256 by 256 pixels of an image that `image_facts` has accepted."""
    with _open(data) as image:
        image.thumbnail(THUMBNAIL_PIXELS)
        small = image.convert("RGBA" if image.has_transparency_data else "RGB")
        written = BytesIO()
        small.save(written, "PNG")
    return written.getvalue()


client = awa.AsyncClient()


@client.task(Thumbnail, queue="thumbnails", output=ImageFacts)
def make_thumbnail(job: awa.Job[Thumbnail]) -> None:
    """Run one job. A file that cannot be read is tried again; a damaged one is not."""
    source = Path(job.args.path)
    if source.stat().st_size > MAX_FILE_BYTES:
        raise awa.TerminalError(f"the file is larger than {MAX_FILE_BYTES >> 20} MiB")
    data = source.read_bytes()
    try:
        facts = image_facts(data, source.suffix)
    except DamagedImage as error:
        raise awa.TerminalError(f"damaged image: {error}") from error
    if job.args.into is not None:
        _write_whole(Path(job.args.into) / f"{facts.digest}.png", thumbnail_of(data))
    job.set_output(facts)


def _open(data: bytes) -> Image.Image:
    return Image.open(BytesIO(data), formats=list(SUFFIXES))


def _decode(data: bytes, found: str) -> None:
    """Decode twice over: `verify` looks at checksums, `load` at the pixels of every frame."""
    try:
        with _open(data) as image:
            image.verify()
        with _open(data) as image:
            for frame in ImageSequence.Iterator(image):
                frame.load()
    except DECODING_ERRORS as error:
        raise DamagedImage(f"the {found} data are broken: {error}") from error


def _known_formats() -> str:
    *names, last = SUFFIXES
    return f"{', '.join(names)} or {last}"


def _start_of(data: bytes) -> str:
    return f"it starts with {data[:8].hex(' ')}"


def _write_whole(target: Path, data: bytes) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(dir=target.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
        os.replace(name, target)
    except BaseException:
        Path(name).unlink()
        raise
