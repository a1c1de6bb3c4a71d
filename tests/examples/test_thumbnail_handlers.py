"""The thumbnails handler: right facts for good images, a clear refusal for damaged ones."""

import hashlib
import random
import re
from io import BytesIO
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

import awa
from awa.manifest import load_queue, local_view
from awa.testing import handler_job, work_all
from examples.loading import EXAMPLES, load
from support.postgres import Database

images = load("thumbnails", "images")
handlers = load("thumbnails", "handlers")

SUFFIX_OF = {name: suffix for name, suffix, _ in images.KINDS}
WORDS_FOR = {
    "truncated": "(data are|header is) broken",
    "wrong magic": "not an image in PNG, JPEG, GIF, WEBP, BMP or TIFF",
    "empty": "the file is empty",
    "garbage inside": "data are broken",
    "web page": "not an image in PNG, JPEG, GIF, WEBP, BMP or TIFF",
    "wrong extension": "but the data are",
}


def encoded(mode: str = "RGB", size: tuple[int, int] = (64, 48), name: str = "PNG") -> bytes:
    written = BytesIO()
    Image.effect_noise(size, 40).convert(mode).save(written, name)
    return written.getvalue()


@pytest.mark.parametrize("seed", range(3))
def test_every_good_image_gives_its_facts_and_every_damaged_one_is_refused(tmp_path, seed):
    for image in images.make_images(tmp_path, count=72, damaged=36, seed=seed):
        data = image.path.read_bytes()
        if image.damage is None:
            facts = handlers.image_facts(data, image.path.suffix)
            assert facts == handlers.ImageFacts(
                image.width, image.height, image.bytes, image.digest, image.format
            )
        else:
            with pytest.raises(handlers.DamagedImage, match=WORDS_FOR[image.damage]):
                handlers.image_facts(data, image.path.suffix)


@pytest.mark.parametrize(("damage", "formats", "spoil"), images.DAMAGES)
def test_each_damage_is_seen_in_each_format_that_can_have_it(damage, formats, spoil):
    for name in formats:
        for seed in range(8):
            chance = random.Random(seed)  # noqa: S311 - pictures, no secrets
            picture = images._picture(chance)
            how = next(how for kind, _, how in images.KINDS if kind == name)
            data = spoil(images._encoded(picture, name, how), chance)
            suffix = ".png" if name != "PNG" else ".gif"
            if damage != "wrong extension":
                suffix = SUFFIX_OF[name]
            with pytest.raises(handlers.DamagedImage, match=WORDS_FOR[damage]):
                handlers.image_facts(data, suffix)


@pytest.mark.parametrize("suffix", [".jpg", ".jpeg", ".JPG"])
def test_any_usual_suffix_of_the_format_will_do(suffix):
    assert handlers.image_facts(encoded(name="JPEG"), suffix).format == "JPEG"


def test_a_file_without_a_suffix_is_refused():
    with pytest.raises(handlers.DamagedImage, match="named without a suffix, but the data are PNG"):
        handlers.image_facts(encoded(), "")


def test_a_later_frame_that_is_missing_is_seen():
    frames = [Image.effect_noise((40, 40), 90).convert("P") for _ in range(3)]
    written = BytesIO()
    frames[0].save(written, "GIF", save_all=True, append_images=frames[1:])
    whole = written.getvalue()

    assert handlers.image_facts(whole, ".gif").bytes == len(whole)
    with pytest.raises(handlers.DamagedImage, match="GIF data are broken"):
        handlers.image_facts(whole[:-400], ".gif")


def test_an_image_with_too_many_pixels_is_refused_before_it_is_decoded():
    written = BytesIO()
    Image.new("1", (8_000, 8_000)).save(written, "PNG")
    assert len(written.getvalue()) < 100_000
    with pytest.raises(handlers.DamagedImage, match="8000 by 8000 pixels are too many"):
        handlers.image_facts(written.getvalue(), ".png")


# Pillow warns of a TIFF whose tags make no sense, and of many pixels, and goes on.
@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.filterwarnings("ignore::PIL.Image.DecompressionBombWarning")
@given(st.sampled_from(sorted(SUFFIX_OF)), st.randoms(), st.floats(0, 1), st.binary(max_size=40))
def test_whatever_is_in_a_file_it_is_accepted_or_refused_with_a_reason(name, chance, at, garbage):
    data = bytearray(encoded(size=(chance.randint(1, 40), chance.randint(1, 40)), name=name))
    start = int(at * len(data))
    data[start : start + len(garbage)] = garbage
    assert accepted_or_refused(bytes(data), SUFFIX_OF[name])


def accepted_or_refused(data: bytes, suffix: str) -> str:
    """Return the right digest or the reason of the refusal."""
    try:
        found: str = handlers.image_facts(data, suffix).digest
    except handlers.DamagedImage as refused:
        return str(refused)
    return found if found == hashlib.sha256(data).hexdigest() else ""


@pytest.mark.parametrize(
    ("mode", "kept"), [("RGB", "RGB"), ("RGBA", "RGBA"), ("L", "RGB"), ("1", "RGB"), ("P", "RGB")]
)
def test_a_thumbnail_is_small_keeps_the_shape_and_transparency(mode, kept):
    made = handlers.thumbnail_of(encoded(mode, (1000, 500)))
    with Image.open(BytesIO(made)) as thumbnail:
        assert thumbnail.size == (256, 128)
        assert thumbnail.mode == kept


def test_a_job_records_the_facts_and_writes_the_thumbnail_whole(tmp_path):
    source, into = tmp_path / "picture.png", tmp_path / "small"
    source.write_bytes(encoded())
    job = handler_job(handlers.Thumbnail(str(source), str(into)), output=handlers.ImageFacts)

    handlers.make_thumbnail(job)
    handlers.make_thumbnail(job)  # jobs run at least once

    digest = hashlib.sha256(source.read_bytes()).hexdigest()
    assert job.output == {
        "width": 64, "height": 48, "bytes": source.stat().st_size, "digest": digest,
        "format": "PNG",
    }  # fmt: skip
    assert [path.name for path in into.iterdir()] == [f"{digest}.png"]


def test_a_file_that_is_not_there_is_tried_again(tmp_path):
    with pytest.raises(FileNotFoundError):
        handlers.make_thumbnail(handler_job(handlers.Thumbnail(str(tmp_path / "missing.png"))))


def test_a_file_that_is_too_large_is_refused_unread(tmp_path):
    huge = tmp_path / "huge.png"
    with huge.open("wb") as file:
        file.truncate(handlers.MAX_FILE_BYTES + 1)
    with pytest.raises(awa.TerminalError, match="larger than 64 MiB"):
        handlers.make_thumbnail(handler_job(handlers.Thumbnail(str(huge))))


async def test_in_a_worker_good_images_complete_with_output_and_damaged_ones_fail_at_once(
    database: Database, tmp_path
):
    made = images.make_images(tmp_path, count=12, damaged=6)
    async with awa.AsyncClient(database.dsn) as client:
        for handler in handlers.client.registry:
            client.registry.add(
                handler.function, handler.args_type, kind=handler.kind, output=handler.output_type
            )
        for image in made:
            await client.insert(handlers.Thumbnail(str(image.path)), queue="thumbnails")
        jobs = [result.job for result in await work_all(client, "thumbnails")]

    ended = {Path(job.args["path"]): job for job in jobs if job is not None}
    for image in made:
        job = ended[image.path]
        if image.damage is None:
            assert job.state is awa.JobState.Completed
            assert job.output == {
                "width": image.width, "height": image.height, "bytes": image.bytes,
                "digest": image.digest, "format": image.format,
            }  # fmt: skip
        else:
            assert (job.state, job.attempt, job.output) == (awa.JobState.Failed, 1, None)
            error = job.errors[-1]["error"]
            assert re.match(f"TerminalError: damaged image: .*{WORDS_FOR[image.damage]}", error)


def test_the_manifest_is_good_and_serves_the_queue_of_the_handler():
    queue = load_queue(EXAMPLES / "thumbnails" / "queue.yaml")

    view = local_view(queue, "postgresql://localhost/awa")

    (handler,) = handlers.client.registry
    assert view.queue_name == handler.queue == "thumbnails"
    assert handler.kind == "thumbnail"
    assert view.command == ("awa", "worker", "handlers")
    assert view.scaling is not None
