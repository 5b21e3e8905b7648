"""Whole or not at all: what a dataset lacks is noticed and made again, and what cannot be written is no traceback."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from mlgo_gym.cli.corpus_tables import lacks_text, list_table
from mlgo_gym.corpus import dataset as datasets
from mlgo_gym.corpus import fetch, names, opening, pins, shim_compiles
from mlgo_gym.corpus.catalogue import Dataset, Part, dataset_names, find_dataset
from mlgo_gym.corpus.dataset import REPORT_FILE, dataset_folder, fetch_dataset, lacks, read_report
from mlgo_gym.corpus.description import read_description, write_description
from mlgo_gym.corpus.information import describe
from mlgo_gym.corpus.names import named_corpora
from mlgo_gym.corpus.opening import open_corpus
from mlgo_gym.corpus.pins import corpus_digest, find_pins, missing_files, write_pins, wrong_digest
from mlgo_gym.corpus.verify import verify
from mlgo_gym.envs import InlineEnv
from mlgo_gym.errors import CorpusError, CorpusWarning
from mlgo_gym.llvm.toolchain import Toolchain
from mlgo_gym.storage.cache import JsonCache
from mlgo_gym.storage.leftovers import make_own_folder, own_prefix
from tests.corpus.package_index import PackageIndex, serve, source_distribution
from tests.corpus.test_dataset import pinned, use

WELL = {
    "src/good.c": "int good(int x) { return x * 3; }\n",
    "src/more.c": "int more(int x) { return x * 5; }\n",
    "src/windows.c": "#error not here\n",
}


@pytest.fixture
def index(own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[PackageIndex]:
    """An index with the dataset `tiny`, all of which compiles, and an empty cache."""
    with serve() as served:
        monkeypatch.setenv("PIP_INDEX_URL", served.url)
        monkeypatch.setattr(fetch, "_pip_setting", lambda name: None)
        entry = pinned(served.add("tiny-1.0.tar.gz", source_distribution(WELL)))
        use(monkeypatch, replace(entry, parts=(Part(sources=("src/*.c",)),)))
        yield served


def in_the_catalogue() -> Dataset:
    """Return the entry `tiny` as the fixture has put it there."""
    find: Callable[[str], Dataset] = vars(datasets)["find_dataset"]
    return find("tiny")


def test_the_catalogue_pins_what_its_datasets_hold() -> None:
    known = [name for name in dataset_names() if find_pins(find_dataset(name))]
    assert len(known) >= 23
    zstd = find_pins(find_dataset("zstd"))
    assert zstd is not None
    assert len(zstd.modules) == 29
    assert set(zstd.digests) >= {"Oz", "Os"}


def test_a_dataset_that_lacks_a_pinned_module_or_a_file_says_so_and_is_completed_by_the_next_fetch(
    index: PackageIndex, toolchain: Toolchain, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    folder = fetch_dataset("tiny", toolchain=toolchain)
    dataset = in_the_catalogue()
    monkeypatch.setattr(pins, "_FOLDER", tmp_path / "pins")
    write_pins(dataset, {"Oz": folder}, toolchain.version_text)
    pins._read.cache_clear()
    assert lacks(dataset, folder) == []
    assert wrong_digest(folder, dataset, "Oz", toolchain) is None
    made = folder.stat().st_ino
    assert fetch_dataset("tiny", toolchain=toolchain).stat().st_ino == made

    write_description(folder, ["src/good.o"])
    assert missing_files(folder, dataset) == ["src/more.o"]
    fetch_dataset("tiny", toolchain=toolchain)
    assert read_description(folder).modules == ("src/good.o", "src/more.o")
    for gone in ("src/good.o.cmd", "src/more.o.bc", REPORT_FILE):
        (folder / gone).unlink()
        assert lacks(dataset, folder) == [gone]
        fetch_dataset("tiny", toolchain=toolchain)
        assert lacks(dataset, folder) == []
    (folder / "src" / "good.o.bc").write_bytes(b"other")
    assert "the digest of its modules" in str(wrong_digest(folder, dataset, "Oz", toolchain))
    pins._read.cache_clear()


def test_a_compiler_that_is_killed_once_is_tried_again(
    index: PackageIndex, toolchain: Toolchain, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, kills = shim_compiles._run, [2]

    def run(command: list[str], folder: str) -> tuple[int, str]:
        if "-emit-llvm-bc" in command and kills[0]:
            kills[0] -= 1
            return -9, ""
        return real(command, folder)

    monkeypatch.setattr(shim_compiles, "_run", run)
    report = read_report("tiny", fetch_dataset("tiny", toolchain=toolchain))
    assert (report.modules, report.failures) == (2, ())


def test_what_stays_killed_is_missing_and_the_next_fetch_completes_it(
    index: PackageIndex, toolchain: Toolchain, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = shim_compiles._run

    def run(command: list[str], folder: str) -> tuple[int, str]:
        return (-9, "") if "-emit-llvm-bc" in command and command[-1].endswith("more.c") else real(command, folder)

    monkeypatch.setattr(shim_compiles, "_run", run)
    folder = fetch_dataset("tiny", toolchain=toolchain)
    (failure,) = read_report("tiny", folder).failures
    assert failure.killed
    assert "signal 9" in failure.message
    assert lacks(in_the_catalogue(), folder) == [failure.source]
    for module in (datasets, opening, names):
        monkeypatch.setattr(module, "dataset_names", lambda: ("tiny",))
    monkeypatch.setattr(names, "find_dataset", vars(datasets)["find_dataset"])
    with pytest.warns(CorpusWarning, match="lacks 1 of what it is to hold"):
        corpus = open_corpus(folder, toolchain=toolchain)
    with pytest.warns(CorpusWarning, match="lacks 1 of what it is to hold"):
        open_corpus("tiny", toolchain=toolchain)
    assert describe(corpus, toolchain).lacks == [failure.source]
    assert [problem.module for problem in verify(corpus, toolchain)] == [failure.source]
    (entry,) = [entry for entry in named_corpora(toolchain, "Oz") if entry.name == "tiny"]
    assert entry.lacks == (failure.source,)
    assert "lacks 1" in str(list(list_table([entry], "Oz").columns[3].cells))
    assert failure.source in lacks_text(entry.lacks)
    monkeypatch.setattr(shim_compiles, "_run", real)
    assert read_report("tiny", fetch_dataset("tiny", toolchain=toolchain)).failures == ()


def test_reports_of_former_releases_are_read(index: PackageIndex, toolchain: Toolchain) -> None:
    folder = fetch_dataset("tiny", toolchain=toolchain)
    path = folder / REPORT_FILE
    report = json.loads(path.read_bytes())
    del report["left_out"]
    report["failures"] = [{"source": "a.c", "message": "no"}]
    path.write_text(json.dumps(report))
    assert lacks(in_the_catalogue(), folder) == []
    assert not read_report("tiny", folder).failures[0].killed


def test_a_digest_is_of_names_bitcode_and_flags(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / f"{name}.bc").write_bytes(name.encode())
        (tmp_path / f"{name}.cmd").write_bytes(b"-cc1\0")
    digests = {corpus_digest(tmp_path, ["a", "b"]), corpus_digest(tmp_path, ["b", "a"])}
    (tmp_path / "a.cmd").write_bytes(b"-cc1\0-Os\0")
    digests.add(corpus_digest(tmp_path, ["a", "b"]))
    assert len(digests) == 3
    (tmp_path / "b.cmd").unlink()
    with pytest.raises(CorpusError, match="the module b is not whole"):
        corpus_digest(tmp_path, ["a", "b"])


def test_a_full_disk_is_an_error_in_words_and_tears_nothing(
    index: PackageIndex, toolchain: Toolchain, monkeypatch: pytest.MonkeyPatch, own_cache: Path
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(datasets, "write_atomically", full)
    with pytest.raises(CorpusError, match=r"No space left on device; make room .* \$MLGO_CACHE"):
        fetch_dataset("tiny", toolchain=toolchain)
    folder = dataset_folder(in_the_catalogue(), "Oz", toolchain)
    assert not folder.exists()
    assert [path.name for path in folder.parent.iterdir()] == [f".{folder.name}.lock"]


def test_a_cache_that_cannot_be_written_is_read_and_what_is_measured_is_not_kept(
    own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = JsonCache("things")
    cache.put("k" * 8, {"a": 1})

    def read_only(*_: object) -> None:
        raise OSError(30, os.strerror(30))

    monkeypatch.setattr("mlgo_gym.storage.cache.write_atomically", read_only)
    with pytest.warns(UserWarning, match=r"cannot be written \(Read-only file system\).*MLGO_CACHE"):
        cache.put("k" * 8, {"a": 2})
    assert cache.get("k" * 8) == {"a": 1}


def test_what_killed_processes_left_is_swept_and_what_living_ones_have_is_not(tmp_path: Path) -> None:
    mine = make_own_folder(tmp_path, ".made.")
    dead = tmp_path / f"{own_prefix('.made.').replace(str(os.getpid()), '4194999')}x"
    other = tmp_path / ".made.of-something-else"
    for folder in (dead, other):
        folder.mkdir()
    shutil.rmtree(make_own_folder(tmp_path, ".made."))
    assert mine.is_dir()
    assert other.is_dir()
    assert not dead.exists()


def test_a_server_that_stops_in_the_middle_or_is_busy_is_asked_again(
    index: PackageIndex, own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[float] = []

    def wait(seconds: float) -> None:
        waits.append(seconds)
        index.cut = 0

    monkeypatch.setattr(fetch, "sleep", wait)
    index.cut = 10
    assert fetch.fetch_source("tiny", "1.0").path.exists()
    assert waits == [fetch.DELAYS[0]]
    assert index.downloads == 2


def test_parts_of_downloads_that_were_killed_are_swept(index: PackageIndex, own_cache: Path) -> None:
    digest = index.digests["tiny-1.0.tar.gz"]
    folder = own_cache / "downloads" / digest
    folder.mkdir(parents=True)
    left = folder / f"{own_prefix('.part-').replace(str(os.getpid()), '4194999')}x"
    left.write_bytes(b"half")
    fetch.fetch_source("tiny", "1.0", digest)
    assert [path.name for path in folder.iterdir()] == ["tiny-1.0.tar.gz"]


def test_a_module_that_is_deleted_in_mid_episode_is_an_error_that_says_what_helps(calls: Path, tmp_path: Path) -> None:
    shutil.copy(calls, tmp_path / "calls.bc")
    env = InlineEnv(corpus=str(tmp_path), extra_flags=["-mllvm", "-inline-threshold=7"])  # nobody knows its baseline
    env.reset()
    (tmp_path / "calls.bc").unlink()

    def play() -> None:
        over = False
        while not over:
            *_, over, _, _ = env.step(0)

    with pytest.raises(CorpusError, match="its bitcode is missing; make it again"):
        play()
    env.close()
