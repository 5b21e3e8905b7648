"""Fetching source distributions: by digest, from the index that pip uses, and unpacked where they cannot escape."""

from __future__ import annotations

import io
import stat
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from mlgo_gym.corpus import fetch
from mlgo_gym.corpus.fetch import fetch_source, unpack
from mlgo_gym.errors import CorpusError, UnreachableError
from tests.corpus.package_index import PackageIndex, add_file, serve, source_distribution

NAME = "tiny-1.0.tar.gz"


@pytest.fixture
def index(own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[PackageIndex]:
    """An index that pip would use, and an empty cache."""
    with serve() as served:
        monkeypatch.setenv("PIP_INDEX_URL", served.url)
        monkeypatch.setenv("PIP_EXTRA_INDEX_URL", "")
        monkeypatch.setattr(fetch, "_pip_setting", lambda name: None)
        yield served


def kept_files(cache: Path) -> list[Path]:
    """Return every file below the cache."""
    return [path for path in cache.rglob("*") if path.is_file()]


def test_a_source_distribution_is_downloaded_once(index: PackageIndex, own_cache: Path) -> None:
    digest = index.add(NAME, source_distribution({"a.c": "int a;\n"}))
    first = fetch_source("tiny", "1.0", digest)
    assert first.path.read_bytes() == index.files[NAME]
    assert fetch_source("tiny", "1.0", digest) == first
    assert index.downloads == 1


def test_without_a_pin_the_digest_of_the_index_holds(index: PackageIndex) -> None:
    digest = index.add(NAME, source_distribution({"a.c": "int a;\n"}))
    assert fetch_source("tiny", "1.0").sha256 == digest


def test_another_digest_than_the_pinned_one_is_refused_and_nothing_is_kept(
    index: PackageIndex, own_cache: Path
) -> None:
    index.add(NAME, source_distribution({"a.c": "int a;\n"}))
    with pytest.raises(CorpusError, match=f"sha256 was to be {'0' * 64}"):
        fetch_source("tiny", "1.0", "0" * 64)
    assert kept_files(own_cache) == []


def test_a_truncated_download_is_refused_and_nothing_is_kept(index: PackageIndex, own_cache: Path) -> None:
    digest = index.add(NAME, source_distribution({"a.c": "int a;\n"}))
    index.cut = 10
    with pytest.raises(CorpusError):
        fetch_source("tiny", "1.0", digest)
    assert kept_files(own_cache) == []
    index.cut = 0
    assert fetch_source("tiny", "1.0", digest).sha256 == digest


def test_a_cached_archive_that_was_changed_is_fetched_again(index: PackageIndex) -> None:
    digest = index.add(NAME, source_distribution({"a.c": "int a;\n"}))
    path = fetch_source("tiny", "1.0", digest).path
    path.write_bytes(path.read_bytes()[:-1])
    assert fetch_source("tiny", "1.0", digest).path.read_bytes() == index.files[NAME]
    assert index.downloads == 2


@pytest.mark.parametrize(("package", "version"), [("tiny", "2.0"), ("absent", "1.0")])
def test_what_the_index_does_not_have_is_named(index: PackageIndex, package: str, version: str) -> None:
    index.add(NAME, source_distribution({"a.c": ""}))
    with pytest.raises(CorpusError, match=f"no source distribution of {package} {version}"):
        fetch_source(package, version)


def test_an_index_out_of_reach_says_where_to_look(index: PackageIndex, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:1/simple/")
    with pytest.raises(UnreachableError, match="pip config list"):
        fetch_source("tiny", "1.0")


def test_an_index_that_refuses_is_not_out_of_reach(index: PackageIndex) -> None:
    index.status = 503
    with pytest.raises(CorpusError, match="503") as refusal:
        fetch_source("tiny", "1.0")
    assert not isinstance(refusal.value, UnreachableError)


def test_the_index_may_come_from_the_settings_of_pip(index: PackageIndex, monkeypatch: pytest.MonkeyPatch) -> None:
    index.add(NAME, source_distribution({"a.c": ""}))
    monkeypatch.delenv("PIP_INDEX_URL")
    monkeypatch.setattr(fetch, "_pip_setting", {"index-url": index.url}.get)
    assert fetch_source("tiny", "1.0").path.name == NAME


def test_unpacking_gives_the_top_folder(tmp_path: Path) -> None:
    archive = tmp_path / NAME
    archive.write_bytes(source_distribution({"src/a.c": "int a;\n", "setup.py": ""}))
    folder = unpack(archive, tmp_path / "out")
    assert folder == tmp_path / "out" / "tiny-1.0"
    assert (folder / "src" / "a.c").read_text() == "int a;\n"


def test_zip_archives_unpack_too(tmp_path: Path) -> None:
    archive = tmp_path / "tiny-1.0.zip"
    with zipfile.ZipFile(archive, "w") as content:
        content.writestr("tiny-1.0/a.c", "int a;\n")
    assert (unpack(archive, tmp_path / "out") / "a.c").read_text() == "int a;\n"


def test_links_that_stay_inside_are_kept(tmp_path: Path) -> None:
    def fill(archive: tarfile.TarFile) -> None:
        add_file(archive, "top/lib/a.c", b"int a;\n")
        add_link(archive, "top/b.c", "lib/a.c")
        add_link(archive, "top/lib/c.c", "../lib/a.c")

    folder = unpack(make_tar(tmp_path, fill), tmp_path / "out")
    assert (folder / "b.c").read_text() == (folder / "lib" / "c.c").read_text() == "int a;\n"


def add_link(archive: tarfile.TarFile, name: str, target: str, kind: bytes = tarfile.SYMTYPE) -> None:
    """Add a link to an archive."""
    member = tarfile.TarInfo(name)
    member.type = kind
    member.linkname = target
    archive.addfile(member)


def add_device(archive: tarfile.TarFile) -> None:
    """Add a character device to an archive."""
    member = tarfile.TarInfo("top/null")
    member.type = tarfile.CHRTYPE
    archive.addfile(member)


def make_tar(folder: Path, fill: Callable[[tarfile.TarFile], None]) -> Path:
    """Return an archive with what a function puts into it."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        fill(archive)
    path = folder / "evil-1.0.tar.gz"
    path.write_bytes(buffer.getvalue())
    return path


@pytest.mark.parametrize(
    "fill",
    [
        lambda archive: add_file(archive, "../escaped.c"),
        lambda archive: add_file(archive, "top/../../escaped.c"),
        lambda archive: add_file(archive, "/tmp/escaped.c"),
        lambda archive: add_link(archive, "top/link", "../../escaped"),
        lambda archive: add_link(archive, "top/link", "/etc/passwd"),
        lambda archive: add_link(archive, "top/link", "../escaped.c", tarfile.LNKTYPE),
        add_device,
    ],
    ids=["dots", "inner-dots", "absolute", "link", "absolute-link", "hard-link", "device"],
)
def test_an_archive_that_leads_out_is_refused_and_nothing_is_left(
    tmp_path: Path, fill: Callable[[tarfile.TarFile], None]
) -> None:
    def fill_after_a_file(archive: tarfile.TarFile) -> None:
        add_file(archive, "top/good.c")
        fill(archive)

    archive = make_tar(tmp_path, fill_after_a_file)
    with pytest.raises(CorpusError, match="refused"):
        unpack(archive, tmp_path / "inside" / "out")
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == [archive.name]
    assert list((tmp_path / "inside").iterdir()) == []


@pytest.mark.parametrize("name", ["../escaped.c", "/tmp/escaped.c"])
def test_a_zip_that_leads_out_is_refused(tmp_path: Path, name: str) -> None:
    archive = tmp_path / "evil.zip"
    with zipfile.ZipFile(archive, "w") as content:
        content.writestr(name, "")
    with pytest.raises(CorpusError, match="leads out"):
        unpack(archive, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_link_in_a_zip_is_refused(tmp_path: Path) -> None:
    archive = tmp_path / "evil.zip"
    member = zipfile.ZipInfo("top/link")
    member.external_attr = (stat.S_IFLNK | 0o777) << 16
    with zipfile.ZipFile(archive, "w") as content:
        content.writestr(member, "/etc/passwd")
    with pytest.raises(CorpusError, match="is a link"):
        unpack(archive, tmp_path / "out")


def test_an_archive_that_would_fill_the_disk_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch, "LARGEST_ARCHIVE", 1 << 20)
    archive = make_tar(tmp_path, lambda tar: add_file(tar, "top/zeros", bytes(2 << 20)))
    with pytest.raises(CorpusError, match="unpack to 2 MiB"):
        unpack(archive, tmp_path / "out")


@pytest.mark.parametrize(
    "content",
    [b"", b"not an archive", source_distribution({"a.c": "x" * 9999})[:-40]],
    ids=["empty", "text", "cut off"],  # gzip notes the time: the bytes are not the same in every process
)
def test_what_is_no_whole_archive_is_refused(tmp_path: Path, content: bytes) -> None:
    archive = tmp_path / NAME
    archive.write_bytes(content)
    with pytest.raises(CorpusError, match="whole archive"):
        unpack(archive, tmp_path / "inside" / "out")
    assert list((tmp_path / "inside").iterdir()) == []
