"""Untrusted archives: paths that lead out are refused, and nothing is kept."""

from __future__ import annotations

import io
import resource
import stat
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

import mlgo_gym.corpus.datasets.unpack as unpack_module
from mlgo_gym.corpus.datasets.unpack import unpack
from mlgo_gym.errors import CorpusError
from tests.corpus.package_index import add_file, source_distribution

NAME = "tiny-1.0.tar.gz"


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


def add_link(archive: tarfile.TarFile, name: str, target: str, kind: bytes = tarfile.SYMTYPE) -> tarfile.TarInfo:
    """Add a link to an archive, and return its entry."""
    member = tarfile.TarInfo(name)
    member.type = kind
    member.linkname = target
    archive.addfile(member)
    return member


def add_device(archive: tarfile.TarFile) -> None:
    """Add a character device to an archive."""
    member = tarfile.TarInfo("top/null")
    member.type = tarfile.CHRTYPE
    archive.addfile(member)


def make_tar(folder: Path, fill: Callable[[tarfile.TarFile], object]) -> Path:
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
        lambda archive: (add_link(archive, "top/a", "."), add_file(archive, "top/a/../../escaped.c")),
        lambda archive: (add_link(archive, "top/in", "."), add_link(archive, "top/out", "in/../..")),
        lambda archive: (
            add_link(archive, "deep/er/up", ".."),
            add_link(archive, "deep/er/out", "up/../.."),
            add_file(archive, "deep/er/out/escaped.c"),
        ),
        lambda archive: (add_link(archive, "top/dir", "sub"), add_file(archive, "top/dir/written-through.c")),
        lambda archive: (
            add_link(archive, "top/soft", "x"),
            add_link(archive, "top/hard", "top/soft", tarfile.LNKTYPE),
        ),
        lambda archive: add_file(archive, "top\\..\\escaped.c"),
    ],
    ids=[
        *("dots", "inner-dots", "absolute", "link", "absolute-link", "hard-link", "device", "through-a-link"),
        *("a-link-through-a-link", "a-chain-of-links", "written-through-a-link", "a-hard-link-to-a-link", "backslash"),
    ],
)
def test_an_archive_that_leads_out_is_refused_on_every_python_and_nothing_is_left(
    tmp_path: Path, fill: Callable[[tarfile.TarFile], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(tarfile, "data_filter", raising=False)  # as in 3.11.2

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
    monkeypatch.setattr(unpack_module, "MAX_UNPACKED_BYTES", 1 << 20)
    archive = make_tar(tmp_path, lambda tar: add_file(tar, "top/zeros", bytes(2 << 20)))
    with pytest.raises(CorpusError, match="got 2 or more"):
        unpack(archive, tmp_path / "out")


def test_an_archive_of_too_many_files_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unpack_module, "MAX_MEMBERS", 5)
    archive = make_tar(tmp_path, lambda tar: [add_file(tar, f"top/{number}") for number in range(6)])
    with pytest.raises(CorpusError, match="at most 5 entries"):
        unpack(archive, tmp_path / "out")


@pytest.mark.parametrize("kind", [tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK])
def test_a_name_that_would_fill_the_memory_is_refused(
    kind: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unpack_module, "MAX_HEADER_BYTES", 1 << 16)

    def fill(archive: tarfile.TarFile) -> None:
        header = tarfile.TarInfo("././@LongLink")
        header.type = kind
        header.size = 1 << 17
        archive.addfile(header, io.BytesIO(bytes(1 << 17)))
        add_file(archive, "top/a.c")

    with pytest.raises(CorpusError, match="got 131072"):
        unpack(make_tar(tmp_path, fill), tmp_path / "inside" / "out")
    assert list((tmp_path / "inside").iterdir()) == []


@pytest.mark.parametrize("method", [zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_a_zip_whose_contents_are_damaged_is_refused(method: int, tmp_path: Path) -> None:
    archive = tmp_path / "tiny-1.0.zip"
    text = "".join(f"int x{number * number};\n" for number in range(500))
    with zipfile.ZipFile(archive, "w", method) as content:
        content.writestr("tiny-1.0/a.c", text)
    data = bytearray(archive.read_bytes())
    for place in range(80, 600, 7):
        data[place] ^= 0x5A
    archive.write_bytes(data)
    with pytest.raises(CorpusError, match="complete archive"):
        unpack(archive, tmp_path / "inside" / "out")


def test_a_zip_that_wants_a_password_is_refused(tmp_path: Path) -> None:
    archive = tmp_path / "tiny-1.0.zip"
    with zipfile.ZipFile(archive, "w") as content:
        content.writestr("tiny-1.0/a.c", "int a;\n")
    data = bytearray(archive.read_bytes())
    data[6] |= 1  # the flag of encryption, in the file's own header and in the directory
    data[data.index(b"PK\x01\x02") + 8] |= 1
    archive.write_bytes(data)
    with pytest.raises(CorpusError, match="password"):
        unpack(archive, tmp_path / "inside" / "out")


@pytest.mark.parametrize("name", ["top/a b.c", "top/new\nline.c", "top/-o", "top/'\".c", "top/\udcff.c", "top/@x"])
def test_a_file_of_any_name_unpacks(name: str, tmp_path: Path) -> None:
    folder = unpack(make_tar(tmp_path, lambda tar: add_file(tar, name, b"int a;\n")), tmp_path / "out")
    assert [path.name for path in folder.iterdir()] == [name.removeprefix("top/")]


@pytest.mark.parametrize(
    "content",
    [b"", b"not an archive", source_distribution({"a.c": "x" * 9999})[:-40]],
    ids=["empty", "text", "cut off"],  # gzip notes the time: the bytes are not the same in every process
)
def test_an_incomplete_archive_is_refused(tmp_path: Path, content: bytes) -> None:
    archive = tmp_path / NAME
    archive.write_bytes(content)
    with pytest.raises(CorpusError, match="complete archive"):
        unpack(archive, tmp_path / "inside" / "out")
    assert list((tmp_path / "inside").iterdir()) == []


def test_a_full_disk_is_not_reported_as_a_damaged_archive(tmp_path: Path) -> None:
    archive = make_tar(tmp_path, lambda tar: add_file(tar, "folder/large", bytes(100_000)))
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, before[1]))
    try:
        with pytest.raises(CorpusError, match=r"cannot be unpacked to .*: File too large; free space"):
            unpack(archive, tmp_path / "unpacked")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert not (tmp_path / "unpacked").exists()
