"""Damaged files of every format, and all findings of fuzzing, are refused with the typed error in bounded time."""

import random
from pathlib import Path

import pytest

from tests.fuzz import __main__ as fuzzing
from tests.fuzz.formats import FORMATS, FOUND, Format

INPUTS = 50
"""Number of changed files, and of files of random bytes, for each format."""

# NumPy warns of numbers beyond the range of a model's input.
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")


@pytest.fixture
def fuzzed(name: str) -> Format:
    return FORMATS[name]


def damaged(seeds: list[bytes], tokens: tuple[bytes, ...], chance: random.Random) -> bytes:
    """Return one of the seeds with one to six places replaced, by random bytes, a token, or a part of a seed."""
    data = bytearray(chance.choice(seeds))
    for _ in range(chance.randint(1, 6)):
        at, seed = chance.randrange(len(data) + 1), chance.choice(seeds)
        part = seed[chance.randrange(len(seed) + 1) :][: chance.choice((4, 64, len(seed)))]
        new = chance.choice((b"", chance.randbytes(1), bytes(4), b"\xff" * 4, part, chance.choice(tokens)))
        data[at : at + chance.choice((0, 1, len(new), 64, len(data)))] = new
    return bytes(data)


@pytest.mark.parametrize("name", FORMATS)
def test_valid_files_are_read(fuzzed: Format) -> None:
    assert not any(map(fuzzed.refuses, fuzzed.seeds()))


@pytest.mark.parametrize("name", FORMATS)
def test_damaged_files_are_read_or_refused(fuzzed: Format) -> None:
    seeds, chance = fuzzed.seeds(), random.Random(fuzzed.name)
    refused = 0
    for _ in range(INPUTS):
        refused += fuzzed.refuses(damaged(seeds, fuzzed.tokens, chance))
        refused += fuzzed.refuses(chance.randbytes(chance.randrange(300)))
    assert refused


@pytest.mark.parametrize("name", sorted(folder.name for folder in FOUND.iterdir()))
def test_findings_stay_fixed(fuzzed: Format) -> None:
    for path in sorted((FOUND / fuzzed.name).iterdir()):
        fuzzed.refuses(path.read_bytes())


def test_another_error_and_a_large_input_are_findings() -> None:
    with pytest.raises(ZeroDivisionError):
        Format("broken", lambda data: 1 / len(data)).refuses(b"")
    largest = bytearray(400_000_000)  # an earlier peak hides nothing
    del largest
    with pytest.raises(AssertionError, match=r"took .* MB"):
        Format("greedy", lambda data: len(bytearray(data) * 300_000_000)).refuses(b"x")


def test_a_process_reads_the_inputs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("atheris")
    assert fuzzing.fuzz(FORMATS["training-log"], 100, 0, tmp_path) is None
    assert "training-log                 100 inputs" in capsys.readouterr().out
    assert any((tmp_path / "training-log" / "corpus").iterdir())
