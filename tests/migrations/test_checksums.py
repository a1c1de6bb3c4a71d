"""The checked-in list: what is released never changes."""

from pathlib import Path

import pytest

from awa_migrations import CatalogInvalid, packaged_catalog
from awa_migrations.checksums import LIST, ChecksumList, main
from support.migrating import THREE_STEPS, MakeCatalog


def test_the_packaged_files_are_those_of_the_list() -> None:
    listed = ChecksumList.parse(LIST.read_text(encoding="utf-8"))

    assert listed.stale_for(packaged_catalog()) == [], "python -m awa_migrations.checksums --write"


def test_a_list_reads_as_it_was_written(make_catalog: MakeCatalog) -> None:
    listed = ChecksumList(0, {}).renewed(make_catalog(), release=True)

    assert ChecksumList.parse(str(listed)) == listed
    assert listed.released == 9
    assert listed.stale_for(make_catalog()) == []


def test_a_released_file_that_changes_or_goes_is_an_error(make_catalog: MakeCatalog) -> None:
    listed = ChecksumList(0, {}).renewed(make_catalog(), release=True)
    changed = make_catalog({**THREE_STEPS, "0008_add_label": "select 8;"})
    gone = make_catalog({"0007_make_shelf": THREE_STEPS["0007_make_shelf"]}, folder="less")

    assert listed.broken_by(changed) == ["0008_add_label.sql is released and must not change"]
    assert len(listed.broken_by(gone)) == 2
    with pytest.raises(CatalogInvalid, match=r"0008_add_label\.sql is released"):
        listed.renewed(changed, release=False)


def test_a_file_that_is_not_released_may_change_and_is_recorded(make_catalog: MakeCatalog) -> None:
    listed = ChecksumList(0, {}).renewed(make_catalog(), release=True)
    more = make_catalog({**THREE_STEPS, "0010_more": "select 10;"})
    listed = listed.renewed(more, release=False)
    changed = make_catalog({**THREE_STEPS, "0010_more": "select 11;"})

    assert listed.broken_by(changed) == []
    assert listed.stale_for(changed) == ["0010_more.sql differs from the list"]
    assert listed.renewed(changed, release=False).stale_for(changed) == []
    assert listed.renewed(changed, release=False).released == 9


@pytest.mark.parametrize("text", ["", "0007_a.sql abc", "released 0\n0007_a.sql", "released 0 1"])
def test_what_is_no_list_is_refused(text: str) -> None:
    with pytest.raises(CatalogInvalid, match="released N"):
        ChecksumList.parse(text)


def test_the_command_compares_writes_and_freezes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "checksums.txt"
    monkeypatch.setattr("awa_migrations.checksums.LIST", path)
    first = next(iter(packaged_catalog()))

    assert main([]) == 65
    assert f"{first.file_name} differs from the list" in capsys.readouterr().err
    assert main(["--write"]) == 0
    assert main([]) == 0
    assert "released 0\n" in path.read_text()
    assert main(["--release"]) == 0
    assert f"released {packaged_catalog().latest}\n" in path.read_text()

    path.write_text(path.read_text().replace(first.checksum, "0" * 64))
    assert main([]) == 65
    assert main(["--write"]) == 65
    assert f"{first.file_name} is released and must not change" in capsys.readouterr().err
