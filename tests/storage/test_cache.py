"""Records and lines on disk are never torn, with concurrent writers and kills."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from mlgo_gym.storage.cache import UNWRITABLE, JsonCache, cache_directory, key_of, write_atomically
from mlgo_gym.storage.json_lines import JsonLines

KEY = key_of("a key")

WRITER = """
import sys
from mlgo_gym.storage.cache import JsonCache
mine, records = int(sys.argv[1]), JsonCache("records")
value = {"writer": mine, "payload": str(mine) * 100_000}
records.put(sys.argv[2], value)
print("written", flush=True)
while True:
    records.put(sys.argv[2], value)
"""

KILLER = """
import os, select, signal, sys
from mlgo_gym.storage.cache import JsonCache
records = JsonCache("records")
for number in range(60):
    read_end, write_end = os.pipe()
    pid = os.fork()
    while pid == 0:
        records.put(sys.argv[1], {"writer": number, "payload": str(number) * 100_000})
        os.write(write_end, b"w")
    os.read(read_end, 1)
    # Each kill comes a little later, anywhere within a write.
    select.select([], [], [], number * 0.00003)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    os.close(read_end)
    os.close(write_end)
    record = records.get(sys.argv[1])
    complete = record is not None and record["payload"] == str(record["writer"]) * 100_000
    print(record["writer"] if complete else record, "complete" if complete else "torn")
"""


def is_complete(record: dict[str, object]) -> bool:
    return record["payload"] == str(record["writer"]) * 100_000


def writer(number: int) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", WRITER, str(number), KEY], stdout=subprocess.PIPE)


def wait_until_it_wrote(process: subprocess.Popen[bytes]) -> None:
    assert process.stdout is not None
    assert process.stdout.readline() == b"written\n"


def end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.communicate()


def test_the_folder_is_the_chosen_one(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("MLGO_CACHE", str(tmp_path))
    assert cache_directory() == tmp_path


def test_a_tilde_in_the_chosen_folder_is_the_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("MLGO_CACHE", "~/kept")
    assert cache_directory() == tmp_path / "kept"


def test_without_a_choice_it_is_the_platforms_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("MLGO_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_directory() == tmp_path / "mlgo-gym"


def test_a_record_comes_back(own_cache: Path) -> None:
    JsonCache("records").put(KEY, {"size": 3, "name": "caf\u00e9"})
    assert JsonCache("records").get(KEY) == {"size": 3, "name": "caf\u00e9"}


def test_kinds_do_not_share_records(own_cache: Path) -> None:
    JsonCache("records").put(KEY, {"size": 3})
    assert JsonCache("others").get(KEY) is None


def test_a_missing_record_is_none(own_cache: Path) -> None:
    assert JsonCache("records").get(KEY) is None


@pytest.mark.parametrize("damage", [b"", b'{"size": 3', b"\xff\x00", b"[1]", b"3"])
def test_a_damaged_record_is_none_and_is_replaced(own_cache: Path, damage: bytes) -> None:
    records = JsonCache("records")
    records.put(KEY, {"size": 3})
    (file,) = own_cache.rglob("*.json")
    file.write_bytes(damage)
    assert records.get(KEY) is None
    records.put(KEY, {"size": 4})
    assert records.get(KEY) == {"size": 4}


def test_keys_of_different_parts_differ() -> None:
    parts: list[tuple[object, ...]] = [(), ("a",), ("a", "b"), ("ab",), (["a", "b"],), (1,), ("1",), (None,)]
    assert len({key_of(*part) for part in parts}) == len(parts)


def test_a_failed_write_leaves_the_old_file_and_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "record"
    write_atomically(path, b"old")

    def full(*_: object) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(OSError, match="no space"):
        write_atomically(path, b"new")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_readers_never_see_a_torn_record_while_many_write_it(own_cache: Path) -> None:
    writers = [writer(number) for number in range(4)]
    try:
        for process in writers:
            wait_until_it_wrote(process)
        records = JsonCache("records")
        seen = set()
        for _ in range(500):
            record = records.get(KEY)
            assert record is not None
            assert is_complete(record)
            seen.add(record["writer"])
        assert len(seen) > 1
        assert all(process.poll() is None for process in writers)
    finally:
        for process in writers:
            end(process)


def test_a_kill_at_any_moment_leaves_a_complete_record(own_cache: Path) -> None:
    output = subprocess.check_output([sys.executable, "-c", KILLER, KEY], text=True)
    assert output.splitlines() == [f"{number} complete" for number in range(60)]
    assert len(list(own_cache.rglob("*.json"))) == 1


@pytest.fixture
def small_files() -> Iterator[None]:
    """Limit files of this process to 4,000 bytes, which acts like a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4000, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.usefixtures("small_files")
def test_the_error_of_a_full_disk_names_the_file(tmp_path: Path) -> None:
    with pytest.raises(OSError, match=r"File too large: '.*/report\.html'"):
        write_atomically(tmp_path / "report.html", bytes(5000))
    lines = JsonLines(tmp_path / "lines.jsonl")
    lines.append("kept")
    with pytest.raises(OSError, match=r"File too large: '.*/lines\.jsonl'") as caught:
        lines.append("x" * 5000)
    assert caught.value.errno in UNWRITABLE
    with pytest.raises(OSError, match=r"lines\.jsonl"):  # it still has buffered data
        lines.close()


def test_a_partial_last_line_is_removed(tmp_path: Path) -> None:
    (tmp_path / "lines.jsonl").write_bytes(b'"kept"\n"xxxxx')
    lines = JsonLines(tmp_path / "lines.jsonl")
    lines.append("next")
    lines.close()
    assert (tmp_path / "lines.jsonl").read_text().splitlines() == ['"kept"', '"next"']


def test_a_read_only_cache_is_read_and_warns_on_writes(own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = JsonCache("things")
    cache.put("k" * 8, {"a": 1})

    def read_only(*_: object) -> None:
        raise OSError(30, os.strerror(30))

    monkeypatch.setattr("mlgo_gym.storage.cache.write_atomically", read_only)
    with pytest.warns(UserWarning, match=r"cannot be written \(Read-only file system\).*MLGO_CACHE"):
        cache.put("k" * 8, {"a": 2})
    assert cache.get("k" * 8) == {"a": 1}
