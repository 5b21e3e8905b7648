"""`mlgo/Inline-v0`."""

from __future__ import annotations

import io
import math
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from elftools.elf.constants import SH_FLAGS
from elftools.elf.elffile import ELFFile

from mlgo_gym.envs import InlineEnv
from mlgo_gym.episode.baseline import measure_baseline
from mlgo_gym.llvm.toolchain import Toolchain
from mlgo_gym.session.protocol.connection import CompileResult
from mlgo_gym.tasks.measurement import Measurement
from tests.conftest import MakeBitcode, clang_argument
from tests.fakes.drive import play

pytestmark = pytest.mark.usefixtures("nothing_is_left")

METRICS = ("text", "llvm_size", "object")
FEATURES = 38


@pytest.fixture
def objects(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """The objects that are measured, as they come: the agent's, then, if it was not known, the baseline's."""
    kept: list[bytes] = []
    measure = Measurement.of

    def keep(compiled: CompileResult) -> Measurement:
        kept.append(compiled.object_bytes)
        return measure(compiled)

    monkeypatch.setattr(Measurement, "of", keep)
    return kept


@pytest.fixture
def env(calls: Path) -> Iterator[InlineEnv]:
    made = InlineEnv(corpus=str(calls))
    yield made
    made.close()


def text(data: bytes) -> list[bytes]:
    sections = ELFFile(io.BytesIO(data)).iter_sections()
    return [section.data() for section in sections if section["sh_flags"] & SH_FLAGS.SHF_EXECINSTR]


# clang's own choices


@pytest.mark.parametrize("program", ["calls.c", "many_calls.c", "sections.c"])
def test_clangs_own_choices_give_the_text_of_plain_clang_byte_for_byte(
    any_toolchain: Toolchain, program: str, make_bitcode: MakeBitcode, objects: list[bytes], own_cache: Path
) -> None:
    bitcode = make_bitcode(program, compiler=any_toolchain)
    steps = play(InlineEnv(corpus=str(bitcode), clang=clang_argument(any_toolchain)))
    ours, plain = objects
    assert text(ours) == text(plain)
    assert steps[-1].reward == 0.0
    assert steps[-1].info["reduction"] == 0.0


def test_a_clang_that_overwrote_a_feature_with_its_choice_shows_nothing_there(
    any_toolchain: Toolchain, make_bitcode: MakeBitcode
) -> None:
    bitcode = make_bitcode("calls.c", compiler=any_toolchain)
    env = InlineEnv(corpus=str(bitcode), clang=clang_argument(any_toolchain), observation="dict")
    seen = [env.reset()[0], *(step.observation for step in play(env)[:-1])]
    counts = {int(observation["callee_basic_block_count"][0]) for observation in seen}
    overwritten = any_toolchain.version[0] < 21
    assert counts == {0} if overwritten else 0 not in counts


# Observations


def test_the_features_are_those_of_the_compiler_by_name(env: InlineEnv) -> None:
    assert len(env.feature_names) == FEATURES + 1
    assert env.feature_names[-1] == "inlining_default"
    assert {"callee_basic_block_count", "threshold", "cost_estimate"} < set(env.feature_names)
    assert env.observation_space.shape == (FEATURES + 1,)
    assert env.observation_space.dtype == np.float32


def test_both_forms_of_an_observation_say_the_same(calls: Path) -> None:
    flat, raw = (InlineEnv(corpus=str(calls), observation=form) for form in ("flat", "dict"))
    vector, _ = flat.reset()
    tensors, _ = raw.reset()
    assert {name: tensor.dtype.name for name, tensor in tensors.items()} == dict.fromkeys(flat.feature_names, "int64")
    assert vector.tolist() == [float(tensors[name][0]) for name in flat.feature_names]
    assert raw.feature_names == flat.feature_names
    for env in (flat, raw):
        env.close()


# Actions


def test_clang_echoes_what_it_received_where_that_is_wanted(
    any_toolchain: Toolchain, make_bitcode: MakeBitcode
) -> None:
    bitcode = make_bitcode("calls.c", compiler=any_toolchain)
    env = InlineEnv(corpus=str(bitcode), clang=clang_argument(any_toolchain), compile_options={"echo_reply": True})
    steps = play(env, [0, 1] * 10)
    heard = re.findall(r"inlining_decision: (\d)", steps[-1].info["stderr"])
    assert heard == [str(number % 2) for number in range(len(steps))]


# Rewards


@pytest.fixture
def measured(calls: Path, objects: list[bytes], own_cache: Path) -> tuple[bytes, bytes]:
    """The object of an agent that never inlines, and that of plain clang."""
    play(InlineEnv(corpus=str(calls)), 0)
    ours, plain = objects
    return ours, plain


def size(metric: str, data: bytes, folder: Path) -> int:
    if metric == "object":
        return len(data)
    if metric == "text":
        return sum(map(len, text(data)))
    program = shutil.which("llvm-size")
    if program is None:
        pytest.skip("llvm-size is not installed")
    path = folder / "object.o"
    path.write_bytes(data)
    return int(subprocess.check_output([program, str(path)], text=True).splitlines()[1].split()[0])


@pytest.mark.parametrize("metric", METRICS)
def test_rewards_compare_the_measured_size_with_that_of_plain_clang(
    metric: str, calls: Path, measured: tuple[bytes, bytes], tmp_path: Path
) -> None:
    ours, plain = (size(metric, data, tmp_path) for data in measured)
    expected = {"relative": 1 - ours / plain, "bytes": plain - ours, "log": math.log((1 + plain) / (1 + ours))}
    for reward, value in expected.items():
        last = play(InlineEnv(corpus=str(calls), metric=metric, reward=reward), 0)[-1]
        assert last.reward == pytest.approx(value, rel=1e-12)
        assert last.info["reduction"] == pytest.approx(1 - ours / plain)


def test_the_baseline_is_a_plain_compile_with_the_same_flags(env: InlineEnv) -> None:
    info = play(env, 0)[-1].info
    compilation = env.compilation(env.corpus.module("calls"))
    assert info["baseline_text"] == measure_baseline(compilation, 30).sizes_by_metric()["text"]
