"""The images: small in rights, complete, and the same whenever they are built of the same."""

import json
import tarfile

import pytest


def config_of(image):
    with tarfile.open(image.archive) as archive:
        (manifest,) = json.loads(archive.extractfile("manifest.json").read())
        return json.loads(archive.extractfile(manifest["Config"]).read())


@pytest.mark.parametrize("name", ["worker", "operator", "thumbnails"])
def test_an_image_runs_as_a_numbered_user_and_starts_without_a_shell(built_images, name):
    config = config_of(getattr(built_images, name))["config"]
    assert config["User"] == "65532:65532"
    assert config["Entrypoint"] in (["awa"], ["python", "-m", "awa_operator"])
    assert config["Labels"]["org.opencontainers.image.licenses"] == "Apache-2.0"


@pytest.mark.parametrize("name", ["worker", "operator", "thumbnails"])
def test_an_image_has_neither_pip_nor_a_compiler(built_images, name):
    found = []
    with tarfile.open(getattr(built_images, name).archive) as archive:
        (manifest,) = json.loads(archive.extractfile("manifest.json").read())
        for layer in manifest["Layers"]:
            with tarfile.open(fileobj=archive.extractfile(layer)) as files:
                found += files.getnames()
    assert any(path.endswith("site-packages/awa/__init__.py") for path in found)
    assert not [path for path in found if path.endswith(("bin/pip", "bin/gcc", "bin/cc"))]
