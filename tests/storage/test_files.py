"""Files that several processes use, and files of others: caches, records, locks, untrusted input."""

import errno
import json
import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save

from mlgo_clang.files import process_prefix, read_untrusted
from mlgo_clang.recipes import stored_decisions
from mlgo_gym import load_result, open_corpus
from mlgo_gym.cache import UNWRITABLE, FileCache, JsonCache, cache_directory, key_of, sha256_of, write_atomically
from mlgo_gym.corpus.folder import DESCRIPTION_FILE, read_command, read_description, read_metadata, write_metadata
from mlgo_gym.corpus.recording.links import LINKS_FILE, read_links
from mlgo_gym.corpus.training_digests import read_digests
from mlgo_gym.envs.inline_ir2vec import vocabulary_file
from mlgo_gym.episode.attribution.recipe import read_recipe
from mlgo_gym.errors import MlgoError, PolicyError
from mlgo_gym.llvm.toolchain import Toolchain
from mlgo_gym.storage.json_files import JsonLines, read_json_lines
from mlgo_gym.storage.temporary_folders import complete_folder, make_process_folder
from mlgo_gym.storage.tensors import read_tensors
from tests.conftest import MakeBitcode, limited
from tests.garbling import garblings

KEY = key_of("a key")
KILLER = """
import os, select, signal, sys
from mlgo_gym.cache import JsonCache
records, host = JsonCache("records"), os.getpid()

def start(number):
    read_end, write_end = os.pipe()
    pid = os.fork()
    if pid == 0:
        while os.getppid() == host:
            records.put(sys.argv[1], {"writer": number, "payload": str(number) * 100_000})
            os.write(write_end, b"w")
        os._exit(0)
    os.close(write_end)
    assert os.read(read_end, 1), "a writer has failed"
    return pid, read_end

def kill(pid, read_end):
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    os.close(read_end)

another = start("another")
seen = set()
for number in range(40):
    running = start(number)
    # Each kill comes a little later, anywhere within a write.
    select.select([], [], [], number * 0.00004)
    kill(*running)
    record = records.get(sys.argv[1])
    complete = record is not None and record["payload"] == str(record["writer"]) * 100_000
    seen.add(record["writer"] if complete else "torn")
kill(*another)
print("another" in seen, len(seen) > 1, "torn" in seen)
"""


PLAYER = """
import sys
from mlgo_gym.evaluation import evaluate
for env_id in ("mlgo/Inline-v0", "mlgo/RegAllocEvict-v0"):
    result = evaluate(env_id, policies=["default", "random"], corpus=sys.argv[1])
    print(sorted((row.policy, str(row.metrics), row.decisions, row.actions) for row in result.episodes))
"""


def test_the_folder_is_the_chosen_one_or_the_platforms(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    for chosen, folder in ((str(tmp_path / "a"), "a"), ("~/b", "b"), ("", "mlgo-gym")):
        monkeypatch.setenv("MLGO_CACHE", chosen)
        assert cache_directory() == tmp_path / folder


def test_a_record_comes_back_to_its_kind_and_key_and_a_garbled_one_is_replaced(own_cache: Path) -> None:
    records = JsonCache("records")
    for size in range(200):
        records.put(KEY, {"size": size, "name": "caf\u00e9"})
        assert JsonCache("records").get(KEY) == {"size": size, "name": "caf\u00e9"}
        assert JsonCache("others").get(KEY) is records.get(key_of("another")) is None
        (file,) = own_cache.rglob("*.json")
        (garbled,) = garblings(file.read_bytes(), 1, seed=size)
        file.write_bytes(garbled)
        assert records.get(KEY) is None
    records.put(KEY, {"size": 1})
    another = key_of("another")[2:]
    shutil.copy(file, file.with_name(f"{KEY[:2]}{another}.json"))
    assert records.get(f"{KEY[:2]}{another}") is None
    parts: list[tuple[object, ...]] = [(), ("a",), ("a", "b"), ("ab",), (["a", "b"],), (1,), ("1",), (None,)]
    assert len({key_of(*part) for part in parts}) == len(parts)


def test_garbled_files_of_any_kind_change_no_result(own_cache: Path, make_bitcode: MakeBitcode) -> None:
    """All kinds that an evaluation keeps."""
    words = [sys.executable, "-c", PLAYER, str(make_bitcode("pressure.c"))]
    expected = subprocess.check_output(words)
    by_kind = {path.relative_to(own_cache).parts[0]: path for path in own_cache.rglob("*") if path.is_file()}
    kinds = {"toolchains", "probes", "baselines", "bitcode-facts", "optimized"}
    assert kinds <= set(by_kind), by_kind
    for path in by_kind.values():
        path.write_bytes(next(garblings(path.read_bytes(), 1)))
    assert subprocess.check_output(words) == expected


def test_garbled_programs_and_modules_of_the_cache_are_noticed(own_cache: Path, calls: Path) -> None:
    programs = FileCache("programs", ".so")
    assert programs.get(KEY) is None
    program = programs.put(KEY, b"code", 0o777)
    assert (programs.get(KEY), program.stat().st_mode & 0o100) == (program, 0o100)
    folder = own_cache / "datasets" / "some"
    folder.mkdir(parents=True)
    module = folder / "calls.bc"
    shutil.copy(calls, module)
    write_metadata(folder, "calls", {"bitcode_sha256": sha256_of(module)})
    for data, file in ((b"code", program), (calls.read_bytes(), module)):
        for number, garbled in enumerate(garblings(data, 200)):
            file.write_bytes(garbled)
            os.utime(file, (number, number))
            if file == program:
                assert programs.get(KEY) is None
            else:
                with pytest.raises(MlgoError, match="expected the bitcode that was recorded, got"):
                    open_corpus(folder)[0].digest()
    assert programs.put(KEY, b"code") == program
    assert program.read_bytes() == b"code"
    # A kill between the file and its record.
    shutil.rmtree(own_cache / "programs" / KEY[:2])
    assert programs.get(KEY) is None


def test_a_kill_at_any_moment_and_a_concurrent_writer_leave_a_complete_record(own_cache: Path) -> None:
    output = subprocess.check_output([sys.executable, "-c", KILLER, KEY], text=True)
    assert output == "True True False\n"
    assert len(list(own_cache.rglob("*.json"))) == 1


@pytest.fixture
def full_disk() -> Iterator[None]:
    """Limit files of this process to 4,000 bytes, which acts like a full disk."""
    with limited(resource.RLIMIT_FSIZE, 4000):
        yield


@pytest.mark.usefixtures("full_disk")
def test_a_full_disk_leaves_the_old_file_alone_and_the_error_names_it(tmp_path: Path) -> None:
    report = tmp_path / "report.html"
    write_atomically(report, b"old")
    with pytest.raises(OSError, match=r"File too large: '.*/report\.html'"):
        write_atomically(report, bytes(5000))
    assert report.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [report]
    lines = JsonLines(tmp_path / "lines.jsonl")
    lines.append("first")
    with pytest.raises(OSError, match=r"File too large: '.*/lines\.jsonl'") as caught:
        lines.append("x" * 5000)
    assert caught.value.errno in UNWRITABLE
    with pytest.raises(OSError, match=r"lines\.jsonl"):  # it still has buffered data
        lines.close()


@pytest.mark.usefixtures("full_disk")
def test_a_cache_that_cannot_be_written_is_read_and_warns(own_cache: Path) -> None:
    cache = JsonCache("things")
    cache.put(KEY, {"a": 1})
    with pytest.warns(UserWarning, match=r"cannot be written \(File too large\).*MLGO_CACHE"):
        cache.put(KEY, {"a": "x" * 5000})
    assert cache.get(KEY) == {"a": 1}
    shutil.rmtree(own_cache)
    own_cache.write_bytes(b"a file")
    with pytest.warns(UserWarning, match=r"cannot be written \(Not a directory\)"):
        cache.put(KEY, {"a": 1})


def test_a_partial_last_line_is_removed_and_one_process_writes(tmp_path: Path) -> None:
    path = tmp_path / "lines.jsonl"
    path.write_bytes(b'"first"\n"xxxxx')
    lines = JsonLines(path)
    assert not lines.is_empty
    with pytest.raises(MlgoError, match=r"another process writes to '.*lines\.jsonl'"):
        JsonLines(path)
    lines.append("next")
    lines.close()
    assert path.read_text().splitlines() == ['"first"', '"next"']


def test_a_failure_leaves_nothing_and_replaces_no_file(tmp_path: Path) -> None:
    def fill(output: Path) -> None:
        with complete_folder(output) as staging:
            (staging / "file").touch()
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fill(tmp_path / "folder")
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "file").write_text("old")
    with pytest.raises(OSError, match=os.strerror(errno.ENOTEMPTY)), complete_folder(tmp_path):
        pass
    assert (tmp_path / "file").read_text() == "old"
    assert not list(tmp_path.parent.glob(f".{tmp_path.name}.*"))


def test_a_complete_folder_removes_those_of_exited_processes_alone(tmp_path: Path) -> None:
    mine = make_process_folder(tmp_path, ".made.")
    dead = tmp_path / f"{process_prefix('.made.').replace(str(os.getpid()), '4194999')}x"
    other = tmp_path / ".made.of-something-else"
    for folder in (dead, other):
        folder.mkdir()
    with complete_folder(tmp_path / "made") as staging:
        assert staging.name.startswith(process_prefix(".made."))
    assert {*tmp_path.iterdir()} == {mine, other, tmp_path / "made"}


READERS: dict[str, Callable[[Path], object]] = {
    DESCRIPTION_FILE: lambda path: read_description(path.parent),
    "m.json": lambda path: read_metadata(path.parent, "m"),
    "m.cmd": read_command,
    LINKS_FILE: lambda path: read_links(path.parent),
    "meta.json": lambda path: load_result(path.parent),
    "digests.txt": read_digests,
    "vocabulary.json": lambda path: vocabulary_file(str(path)),
    "episodes.jsonl": lambda path: list(read_json_lines(path)),
    "m.recipe": read_recipe,
    f"{'0' * 64}.recipe": lambda path: stored_decisions(str(path.parent), path.stem),
    "policy.safetensors": read_tensors,
}


def make_endless(path: Path, kind: str) -> Path:
    """Make a pipe or a link to a device."""
    path.parent.mkdir(exist_ok=True)
    path.unlink(missing_ok=True)
    if kind == "a pipe":
        os.mkfifo(path)
    else:
        path.symlink_to("/dev/zero")
    return path


@pytest.mark.parametrize("name", READERS)
def test_a_file_that_is_not_regular_is_an_error(name: str, tmp_path: Path) -> None:
    for kind in ("a pipe", "a device"):
        with pytest.raises(MlgoError, match="expected a regular file"):
            READERS[name](make_endless(tmp_path / name, kind))


def test_a_report_that_is_no_file_does_not_block(calls: Path, toolchain: Toolchain, tmp_path: Path) -> None:
    (tmp_path / "m.bc").write_bytes(calls.read_bytes())
    for kind in ("a pipe", "a device"):
        make_endless(tmp_path / "recording.json", kind)
        assert open_corpus(tmp_path, toolchain=toolchain)[0].name == "m"


def test_a_file_or_a_line_that_would_fill_the_memory_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / DESCRIPTION_FILE
    path.touch()
    os.truncate(path, 1 << 40)
    with pytest.raises(MlgoError, match="expected at most 268,435,456 bytes, got 1,099,511,627,776"):
        read_description(tmp_path)
    with pytest.raises(MlgoError, match="line 1: expected at most 268,435,456 bytes, got more; delete the line"):
        list(read_json_lines(path))
    path.write_bytes(b"four")
    assert read_untrusted(path, 4) == b"four"
    with pytest.raises(OSError, match="expected at most 3 bytes"):
        read_untrusted(path, 3)


def container(header: Any, contents: bytes = b"") -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + contents


def entry(start: int, stop: int, **changes: Any) -> dict[str, Any]:
    return {"dtype": "F32", "shape": [(stop - start) // 4], "data_offsets": [start, stop], **changes}


def test_it_reads_what_the_library_writes(tmp_path: Path) -> None:
    written = {
        "matrix": np.arange(6, dtype=np.float32).reshape(2, 3),
        "integers": np.array([-1, 1 << 40]),
        "empty": np.zeros((0, 4), np.float64),
        "number": np.array(1.5, np.float16),
    }
    path = tmp_path / "x.safetensors"
    path.write_bytes(save(written, {"a": "b"}))
    tensors, metadata = read_tensors(path)
    assert metadata == {"a": "b"}
    assert {name: (array.dtype, array.shape) for name, array in tensors.items()} == {
        name: (array.dtype, array.shape) for name, array in written.items()
    }
    assert all(np.array_equal(tensors[name], array) for name, array in written.items())


DAMAGED = [
    b"\x01",
    b"\xff" * 20,
    container(b"\xff{}"),
    container(b"[" * 100_000),
    container([1]),
    container({"__metadata__": 1}),
    container({"a": {"dtype": "F32"}}),
    container({"a": entry(0, 4, dtype="O")}, bytes(4)),
    container({"a": entry(0, 4, shape=[2])}, bytes(4)),
    container({"a": entry(0, 4, shape=[1 << 80])}, bytes(4)),
    container({"a": entry(0, 8)}, bytes(4)),
]


def test_a_damaged_container_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    for data in DAMAGED:
        path.write_bytes(data)
        with pytest.raises(PolicyError, match=r"expected a safetensors file, got '.*/x\.safetensors'"):
            read_tensors(path)
    with pytest.raises(PolicyError, match=r"expected a safetensors file, got '.*/missing.*No such file"):
        read_tensors(tmp_path / "missing.safetensors")
