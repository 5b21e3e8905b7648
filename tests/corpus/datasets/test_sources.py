"""Source distributions: downloaded by their digests, and unpacked within their folders."""

import io
import os
import stat
import tarfile
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from mlgo_clang.files import process_prefix
from mlgo_gym.corpus.datasets import sources
from mlgo_gym.corpus.datasets.sources import fetch_source, split_amalgamation, unpack
from mlgo_gym.errors import CorpusError, UnreachableError
from tests.corpus.datasets.conftest import NAME
from tests.corpus.package_index import PackageIndex, add_file, source_distribution


def test_a_source_distribution_is_downloaded_once_and_again_after_a_break_or_a_change(index: PackageIndex) -> None:
    digest, index.cut = index.digests[NAME], 10
    first = fetch_source("tiny", "1.0", digest)
    assert (first.path.read_bytes(), index.downloads) == (index.files[NAME], 2)
    assert fetch_source("tiny", "1.0", digest) == first
    assert index.downloads == 2
    first.path.write_bytes(first.path.read_bytes()[:-1])
    assert fetch_source("tiny", "1.0", digest).path.read_bytes() == index.files[NAME]
    assert index.downloads == 3


def test_other_digests_and_missing_distributions_leave_no_trace(index: PackageIndex, own_cache: Path) -> None:
    with pytest.raises(CorpusError, match=f"expected sha256 {'0' * 64}"):
        fetch_source("tiny", "1.0", "0" * 64)
    for package, version in (("tiny", "2.0"), ("absent", "1.0")):
        with pytest.raises(CorpusError, match=f"no source distribution of {package} {version}"):
            fetch_source(package, version)
    assert [path for path in own_cache.rglob("*") if path.is_file()] == []


def test_an_index_that_refuses_is_not_out_of_reach_and_extra_ones_follow(
    index: PackageIndex, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PIP_INDEX_URL", f"{index.url}empty/")
    (tmp_path / "pip.conf").write_text(f"[global]\nextra-index-url = /a/folder {index.url}\n")
    with monkeypatch.context() as patch:
        patch.delenv("PIP_EXTRA_INDEX_URL")
        patch.setenv("PIP_CONFIG_FILE", str(tmp_path / "pip.conf"))
        assert fetch_source("tiny", "1.0").path.name == NAME
    monkeypatch.setenv("PIP_EXTRA_INDEX_URL", f"/a/folder {index.url}")
    assert fetch_source("tiny", "1.0").path.name == NAME
    index.status = 503
    with pytest.raises(CorpusError, match="503") as refusal:
        fetch_source("tiny", "1.0")
    assert not isinstance(refusal.value, UnreachableError)
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:1/simple/")
    with pytest.raises(UnreachableError, match="pip config list"):
        fetch_source("tiny", "1.0")


def test_partial_downloads_of_killed_processes_are_removed(index: PackageIndex, own_cache: Path) -> None:
    folder = own_cache / "downloads" / index.digests[NAME]
    left = folder / f"{process_prefix('.part-').replace(str(os.getpid()), '4194999')}x"
    left.mkdir(parents=True)
    (left / NAME).write_bytes(b"half")
    fetch_source("tiny", "1.0", index.digests[NAME])
    assert [path.name for path in folder.iterdir()] == [NAME]


def test_an_amalgamation_comes_apart_into_its_files() -> None:
    text = (
        "dropped\n/**** start inlining common/a.c ****/\nbefore\n/**** start inlining a.h ****/\nint a;\n"
        "/**** ended inlining a.h ****/\nafter\n/**** skipping file: ../b.h ****/\n"
        "/**** ended inlining common/a.c ****/\n"
    )
    assert split_amalgamation(text) == {
        "common/a.c": 'before\n#include "a.h"\nafter\n#include "../b.h"\n',
        "common/a.h": "int a;\n",
    }


Fill = Callable[[tarfile.TarFile], object]


def make_tar(folder: Path, *fills: Fill) -> Path:
    """Return an archive with what functions put into it."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for fill in fills:
            fill(archive)
    path = folder / "evil-1.0.tar.gz"
    path.write_bytes(buffer.getvalue())
    return path


def make_zip(folder: Path, files: Mapping[str | zipfile.ZipInfo, str], method: int = zipfile.ZIP_STORED) -> Path:
    """Return a ZIP archive of text files."""
    path = folder / "tiny-1.0.zip"
    with zipfile.ZipFile(path, "w", method) as content:
        for name, text in files.items():
            content.writestr(name, text)
    return path


def add_link(archive: tarfile.TarFile, name: str, target: str, kind: bytes = tarfile.SYMTYPE) -> tarfile.TarInfo:
    """Add a link or another special entry to an archive; return it."""
    member = tarfile.TarInfo(name)
    member.type = kind
    member.linkname = target
    archive.addfile(member)
    return member


def test_archives_unpack_to_their_top_folder_with_links_that_stay_inside(tmp_path: Path) -> None:
    def fill(archive: tarfile.TarFile) -> None:
        add_file(archive, "top/lib/a.c", b"int a;\n")
        add_link(archive, "top/b.c", "lib/a.c")
        add_link(archive, "top/lib/c.c", "../lib/a.c")

    folder = unpack(make_tar(tmp_path, fill), tmp_path / "out")
    assert folder == tmp_path / "out" / "top"
    assert [(folder / name).read_text() for name in ("lib/a.c", "b.c", "lib/c.c")] == ["int a;\n"] * 3
    archive = make_zip(tmp_path, {"tiny-1.0/a.c": "int a;\n"})
    assert (unpack(archive, tmp_path / "zip") / "a.c").read_text() == "int a;\n"


LEADING_OUT: Mapping[str, Fill] = {
    "dots": lambda archive: add_file(archive, "../escaped.c"),
    "inner dots": lambda archive: add_file(archive, "top/../../escaped.c"),
    "absolute": lambda archive: add_file(archive, "/tmp/escaped.c"),
    "link": lambda archive: add_link(archive, "top/link", "../../escaped"),
    "absolute link": lambda archive: add_link(archive, "top/link", "/etc/passwd"),
    "hard link": lambda archive: add_link(archive, "top/link", "../escaped.c", tarfile.LNKTYPE),
    "device": lambda archive: add_link(archive, "top/null", "", tarfile.CHRTYPE),
    "through a link": lambda tar: (add_link(tar, "top/a", "."), add_file(tar, "top/a/../../escaped.c")),
    "a link through a link": lambda tar: (add_link(tar, "top/in", "."), add_link(tar, "top/out", "in/../..")),
    "written through links": lambda archive: (
        add_link(archive, "deep/er/up", ".."),
        add_link(archive, "deep/er/out", "up/../.."),
        add_file(archive, "deep/er/out/escaped.c"),
    ),
    "written through a link": lambda tar: (add_link(tar, "top/dir", "sub"), add_file(tar, "top/dir/through.c")),
    "a hard link to a link": lambda archive: (
        add_link(archive, "top/soft", "x"),
        add_link(archive, "top/hard", "top/soft", tarfile.LNKTYPE),
    ),
    "backslash": lambda archive: add_file(archive, "top\\..\\escaped.c"),
}


def test_archives_that_lead_out_are_refused_on_every_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(tarfile, "data_filter", raising=False)  # as in 3.11.2
    for name, fill in LEADING_OUT.items():
        archive = make_tar(tmp_path, lambda tar: add_file(tar, "top/good.c"), fill)
        with pytest.raises(CorpusError, match="refused"):
            unpack(archive, tmp_path / "inside" / "out")
        assert [path.name for path in tmp_path.iterdir() if path.is_file()] == [archive.name], name
        assert list((tmp_path / "inside").iterdir()) == [], name


def test_a_zip_that_leads_out_or_has_links_is_refused(tmp_path: Path) -> None:
    link = zipfile.ZipInfo("top/link")
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    for name, message in (("../escaped.c", "leads out"), ("/tmp/escaped.c", "leads out"), (link, "is a link")):
        with pytest.raises(CorpusError, match=message):
            unpack(make_zip(tmp_path, {name: "/etc/passwd"}), tmp_path / "out")
        assert not (tmp_path / "out").exists()


def test_archives_that_would_fill_disk_or_memory_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def long_name(kind: bytes) -> Fill:
        def fill(archive: tarfile.TarFile) -> None:
            header = tarfile.TarInfo("././@LongLink")
            header.type, header.size = kind, 1 << 17
            archive.addfile(header, io.BytesIO(bytes(1 << 17)))
            add_file(archive, "top/a.c")

        return fill

    # Archives beyond the real limits take minutes.
    for limit, value in (("MAX_UNPACKED_BYTES", 1 << 20), ("MAX_MEMBERS", 5), ("MAX_HEADER_BYTES", 1 << 16)):
        monkeypatch.setattr(sources, limit, value)
    kinds = (tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK)
    cases: list[tuple[Fill, str]] = [
        (lambda tar: add_file(tar, "top/zeros", bytes(2 << 20)), "got 2 or more"),
        (lambda tar: [add_file(tar, f"top/{number}") for number in range(6)], "at most 5 entries"),
        *((long_name(kind), "got 131072") for kind in kinds),
    ]
    for fill, message in cases:
        with pytest.raises(CorpusError, match=message):
            unpack(make_tar(tmp_path, fill), tmp_path / "inside" / "out")
        assert list((tmp_path / "inside").iterdir()) == []


def test_an_incomplete_or_damaged_archive_is_refused(tmp_path: Path) -> None:
    def refuse(archive: Path, message: str) -> None:
        with pytest.raises(CorpusError, match=message):
            unpack(archive, tmp_path / "inside" / "out")
        assert list((tmp_path / "inside").iterdir()) == []

    archive = tmp_path / "tiny-1.0.tar.gz"
    for content in (b"", b"not an archive", source_distribution({"a.c": "x" * 9999})[:-40]):
        archive.write_bytes(content)
        refuse(archive, "complete archive")
    text = "".join(f"int x{number * number};\n" for number in range(500))
    for method in (zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA):
        damaged = make_zip(tmp_path, {"tiny-1.0/a.c": text}, method)
        data = bytearray(damaged.read_bytes())
        data[80:600:7] = bytes(byte ^ 0x5A for byte in data[80:600:7])
        damaged.write_bytes(data)
        refuse(damaged, "complete archive")
    encrypted = make_zip(tmp_path, {"tiny-1.0/a.c": "int a;\n"})
    data = bytearray(encrypted.read_bytes())
    data[6] |= 1  # the flag of encryption, in the file's own header and in the directory
    data[data.index(b"PK\x01\x02") + 8] |= 1
    encrypted.write_bytes(data)
    refuse(encrypted, "password")
