"""Damaged files of every format, and all findings of fuzzing, are refused with the typed error in bounded time."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mlgo_gym.policies.model_process import ModelProcessError
from tests.fuzz import __main__ as program
from tests.fuzz.formats import FORMATS, Format, remove_folder
from tests.fuzz.judge import Judge
from tests.fuzz.mutations import mutate
from tests.fuzz.worker import REPORT

FOUND = Path(__file__).parent / "found"
KEPT = sorted(FOUND.glob("*/*"))


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


@pytest.fixture(scope="module", params=[name for name in FORMATS if not FORMATS[name].native])
def tested(request: pytest.FixtureRequest) -> tuple[Format, Judge, list[bytes]]:
    """A format, its judge, and its seeds."""
    judge = judge_of(request.param)
    return FORMATS[request.param], judge, FORMATS[request.param].seeds()


def test_seeds_are_read(tested: tuple[Format, Judge, list[bytes]]) -> None:
    _, judge, seeds = tested
    assert [judge(data) for data in seeds] == [None] * len(seeds)
    assert judge.refused == 0


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 2**32))
def test_changed_files_are_read_or_refused(tested: tuple[Format, Judge, list[bytes]], seed: int) -> None:
    form, judge, seeds = tested
    assert judge(mutate(seeds, form.tokens, form.longest, random.Random(seed))) is None


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.binary(max_size=300))
def test_any_bytes_are_read_or_refused(tested: tuple[Format, Judge, list[bytes]], data: bytes) -> None:
    _, judge, _ = tested
    assert judge(data) is None


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # NumPy warns of numbers beyond the range of a model's input
@pytest.mark.parametrize("path", KEPT, ids=[f"{path.parent.name}-{path.name}" for path in KEPT])
def test_findings_stay_fixed(path: Path) -> None:
    assert judge_of(path.parent.name)(path.read_bytes()) is None


def test_every_finding_belongs_to_a_format() -> None:
    assert {path.parent.name for path in KEPT} <= set(FORMATS)


def test_another_error_of_a_reader_is_a_finding() -> None:
    def fails(data: bytes) -> None:
        raise KeyError(data)

    judge = Judge(Format("broken", fails, list))
    found = judge(b"x")
    assert found is not None
    assert found.message.startswith("KeyError at tests/fuzz/test_formats.py:")
    assert judge.refused == 0


def test_an_input_that_ends_the_process_of_a_runtime_is_refused_and_counted() -> None:
    def ends(data: bytes) -> None:
        raise ModelProcessError(data)

    judge = Judge(Format("ends", ends, list))
    assert judge(b"x") is None
    assert (judge.refused, judge.ended) == (1, 1)


def test_fuzzing_resumes_after_an_interruption(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seeds: list[int] = []
    outcomes: Iterator[bool] = iter([True, False, True, True])

    def run(name: str, words: list[str], place: Path, total: dict[str, Any]) -> None:
        seeds.append(int(words[3]))
        if not next(outcomes):
            raise KeyboardInterrupt
        total["inputs"] += int(words[2])

    monkeypatch.setattr(program, "_run", run)
    with suppress(KeyboardInterrupt):
        program.fuzz(FORMATS["elf"], 600_000, 7, tmp_path, resume=True)
    assert program.fuzz(FORMATS["elf"], 600_000, 7, tmp_path, resume=True)["inputs"] == 600_000
    assert seeds == [7, 8, 8, 9]


def test_inputs_of_an_interrupted_process_are_counted_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[int] = []

    def run(name: str, words: list[str], place: Path, total: dict[str, Any]) -> None:
        read.append(int(words[2]))
        total["inputs"] += int(words[2])

    monkeypatch.setattr(program, "_run", run)
    (tmp_path / "elf").mkdir()
    (tmp_path / "elf" / REPORT).write_text('{"inputs": 300, "refused": 7, "slowest": 0.5, "findings": {}}')
    for _ in range(2):
        total = program.fuzz(FORMATS["elf"], 1000, 0, tmp_path, resume=True)
        assert (total["inputs"], total["refused"], total["slowest"], total["processes"]) == (1000, 7, 0.5, 2)
    assert read == [700]
