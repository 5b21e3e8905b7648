"""Damaged files of every format, and all findings of fuzzing, are refused with the typed error in bounded time."""

from __future__ import annotations

import random
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from mlgo_gym.policies.model_process import ModelProcessError
from tests.fuzz.__main__ import fuzz
from tests.fuzz.formats import FORMATS, Format, remove_folder
from tests.fuzz.judge import Judge
from tests.fuzz.mutations import mutate

FOUND = Path(__file__).parent / "found"
INPUTS = 50
"""Number of changed files, and of files of random bytes, for each format."""


@pytest.fixture(scope="module", autouse=True)
def nothing_stays_in_memory() -> Iterator[None]:
    """Remove the folder for readers of paths."""
    yield
    remove_folder()


def judge_of(name: str) -> Judge:
    """Return the judge of a format, or skip the test."""
    for module in FORMATS[name].needs:
        if find_spec(module) is None:
            pytest.skip(f"{module} is not installed")
    return Judge(FORMATS[name])


@pytest.mark.parametrize("name", [name for name in FORMATS if not FORMATS[name].native])
def test_files_are_read_and_damaged_ones_are_read_or_refused(name: str) -> None:
    judge, tested, chance = judge_of(name), FORMATS[name], random.Random(name)
    seeds = tested.seeds()
    assert [judge(data) for data in seeds] == [None] * len(seeds)
    assert judge.refused == 0
    for _ in range(INPUTS):
        for data in (mutate(seeds, tested.tokens, tested.longest, chance), chance.randbytes(chance.randrange(300))):
            assert judge(data) is None, data
    assert judge.refused or name == "linker-parameters"  # which accepts any text


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # NumPy warns of numbers beyond the range of a model's input
@pytest.mark.parametrize("name", sorted(folder.name for folder in FOUND.iterdir()))
def test_findings_stay_fixed(name: str) -> None:
    judge = judge_of(name)
    for path in sorted((FOUND / name).iterdir()):
        assert judge(path.read_bytes()) is None, path


def test_another_error_of_a_reader_is_a_finding() -> None:
    def fails(data: bytes) -> None:
        raise KeyError(data)

    judge = Judge(Format("broken", fails, list))
    finding = judge(b"x")
    assert finding is not None
    assert finding.message.startswith("KeyError at tests/fuzz/test_formats.py:")
    assert judge.refused == 0


def test_an_input_that_ends_the_process_of_a_runtime_is_refused_and_counted() -> None:
    def ends(data: bytes) -> None:
        raise ModelProcessError(data)

    judge = Judge(Format("ends", ends, list))
    assert judge(b"x") is None
    assert (judge.refused, judge.ended) == (1, 1)


def test_a_process_reads_its_inputs_and_reports_them(tmp_path: Path) -> None:
    total = fuzz(FORMATS["channel-header"], 100, 0, tmp_path)
    assert (total["inputs"], total["processes"]) == (100, 1)
    assert 0 < total["refused"] < 100
