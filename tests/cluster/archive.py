"""Image archives, as `docker save` writes them: one of a single program, and several in one."""

import hashlib
import io
import json
import tarfile
from collections.abc import Sequence
from pathlib import Path


def write_image(archive: Path, name: str, program: Path, path: str) -> None:
    """Write an archive, as `docker save` does, with an image of one file that is started."""
    layer = io.BytesIO()
    with tarfile.open(fileobj=layer, mode="w") as tar:
        entry = tarfile.TarInfo(path.lstrip("/"))
        entry.size, entry.mode = program.stat().st_size, 0o755
        with program.open("rb") as file:
            tar.addfile(entry, file)
    content = layer.getvalue()
    config = json.dumps(
        {
            "architecture": "amd64",
            "os": "linux",
            "config": {"Entrypoint": [path], "User": "65535:65535"},
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{_sha256(content)}"]},
        }
    ).encode()
    manifest = [{"Config": "config.json", "RepoTags": [name], "Layers": ["layer.tar"]}]
    with tarfile.open(archive, "w") as tar:
        for path_inside, data in (
            ("config.json", config),
            ("layer.tar", content),
            ("manifest.json", json.dumps(manifest).encode()),
        ):
            entry = tarfile.TarInfo(path_inside)
            entry.size = len(data)
            tar.addfile(entry, io.BytesIO(data))


def merge_images(archives: Sequence[Path], into: Path) -> None:
    """Write one archive with the images of several; what they share is in it once."""
    written: set[str] = set()
    manifest: list[object] = []
    with tarfile.open(into, "w") as merged:
        for archive in archives:
            with tarfile.open(archive) as one:
                for member in one:
                    content = one.extractfile(member) if member.isfile() else None
                    if member.name == "manifest.json" and content is not None:
                        manifest += json.load(content)
                    elif member.name not in written | {"repositories"}:
                        written.add(member.name)
                        merged.addfile(member, content)
        data = json.dumps(manifest).encode()
        entry = tarfile.TarInfo("manifest.json")
        entry.size = len(data)
        merged.addfile(entry, io.BytesIO(data))


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
