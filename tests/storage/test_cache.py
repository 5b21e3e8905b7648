"""Records and lines on disk are never torn, with concurrent writers, kills and a full disk."""

from __future__ import annotations

import resource
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from mlgo_gym.errors import MlgoError
from mlgo_gym.storage.cache import UNWRITABLE, JsonCache, cache_directory, key_of, write_atomically
from mlgo_gym.storage.json_lines import JsonLines

KEY = key_of("a key")

WRITER = """
import sys
from mlgo_gym.storage.cache import JsonCache
number, records = int(sys.argv[1]), JsonCache("records")
while True:
    records.put(sys.argv[2], {"writer": number, "payload": str(number) * 100_000})
    print("written", flush=True)
"""

KILLER = """
import os, select, signal, sys
from mlgo_gym.storage.cache import JsonCache
records = JsonCache("records")
for number in range(40):
    read_end, write_end = os.pipe()
    pid = os.fork()
    while pid == 0:
        records.put(sys.argv[1], {"writer": number, "payload": str(number) * 100_000})
        os.write(write_end, b"w")
    os.read(read_end, 1)
    # Each kill comes a little later, anywhere within a write.
    select.select([], [], [], number * 0.00004)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    os.close(read_end)
    os.close(write_end)
    record = records.get(sys.argv[1])
    complete = record is not None and record["payload"] == str(record["writer"]) * 100_000
    print(record["writer"] if complete else record, "complete" if complete else "torn")
"""


def test_the_folder_is_the_chosen_one_or_the_platforms(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    for chosen, folder in ((str(tmp_path / "a"), "a"), ("~/b", "b"), ("", "mlgo-gym")):
        monkeypatch.setenv("MLGO_CACHE", chosen)
        assert cache_directory() == tmp_path / folder


def test_a_record_comes_back_to_its_kind_alone(own_cache: Path) -> None:
    JsonCache("records").put(KEY, {"size": 3, "name": "caf\u00e9"})
    assert JsonCache("records").get(KEY) == {"size": 3, "name": "caf\u00e9"}
    assert JsonCache("others").get(KEY) is None
    assert JsonCache("records").get(key_of("another")) is None


def test_a_damaged_record_is_none_and_is_replaced(own_cache: Path) -> None:
    records = JsonCache("records")
    for size, damage in enumerate([b"", b'{"size": 3', b"\xff\x00", b"[1]", b"3"]):
        records.put(KEY, {"size": size})
        (file,) = own_cache.rglob("*.json")
        assert records.get(KEY) == {"size": size}
        file.write_bytes(damage)
        assert records.get(KEY) is None


def test_keys_of_different_parts_differ() -> None:
    parts: list[tuple[object, ...]] = [(), ("a",), ("a", "b"), ("ab",), (["a", "b"],), (1,), ("1",), (None,)]
    assert len({key_of(*part) for part in parts}) == len(parts)


def test_readers_never_see_a_torn_record_while_many_write_it(own_cache: Path) -> None:
    command = [sys.executable, "-c", WRITER]
    writers = [subprocess.Popen([*command, str(number), KEY], stdout=subprocess.PIPE) for number in range(3)]
    try:
        for process in writers:
            assert process.stdout is not None
            assert process.stdout.readline() == b"written\n"
        seen = set()
        for _ in range(60):
            record = JsonCache("records").get(KEY)
            assert record is not None
            assert record["payload"] == str(record["writer"]) * 100_000
            seen.add(record["writer"])
            for process in writers:
                assert process.stdout is not None
                process.stdout.readline()
        assert len(seen) > 1
    finally:
        for process in writers:
            process.kill()
            process.communicate()


def test_a_kill_at_any_moment_leaves_a_complete_record(own_cache: Path) -> None:
    output = subprocess.check_output([sys.executable, "-c", KILLER, KEY], text=True)
    assert output.splitlines() == [f"{number} complete" for number in range(40)]
    assert len(list(own_cache.rglob("*.json"))) == 1


@pytest.fixture
def full_disk() -> Iterator[None]:
    """Limit files of this process to 4,000 bytes, which acts like a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4000, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


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


def test_another_error_of_a_cache_is_raised(own_cache: Path) -> None:
    own_cache.write_bytes(b"a file")
    with pytest.raises(NotADirectoryError):
        JsonCache("things").put(KEY, {"a": 1})


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
