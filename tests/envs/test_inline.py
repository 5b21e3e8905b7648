"""`mlgo/Inline-v0`."""

from __future__ import annotations

import io
import math
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from elftools.elf.constants import SH_FLAGS
from elftools.elf.elffile import ELFFile

from mlgo_gym.envs import InlineEnv
from mlgo_gym.episode.baseline import measure_baseline
from mlgo_gym.errors import ActionError
from mlgo_gym.llvm.toolchain import Toolchain
from mlgo_gym.session.protocol.connection import CompileResult
from mlgo_gym.tasks.measurement import Measurement
from tests.conftest import MakeBitcode, clang_argument
from tests.fakes.drive import Step, play

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


def test_other_choices_give_another_text(env: InlineEnv, objects: list[bytes], own_cache: Path) -> None:
    play(env, 0)
    ours, plain = objects
    assert text(ours) != text(plain)


@pytest.mark.parametrize("observation", ["flat", "dict"])
def test_every_clang_says_what_it_would_do_itself(
    any_toolchain: Toolchain, make_bitcode: MakeBitcode, observation: str
) -> None:
    bitcode = make_bitcode("calls.c", compiler=any_toolchain)
    env = InlineEnv(corpus=str(bitcode), clang=clang_argument(any_toolchain), observation=observation)
    seen, info = env.reset()
    value = seen["inlining_default"] if observation == "dict" else seen[env.feature_names.index("inlining_default")]
    env.close()
    assert info["default_action"] == 1
    assert value == 1


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


def test_the_last_observation_is_nothing(calls: Path) -> None:
    for form in ("flat", "dict"):
        env = InlineEnv(corpus=str(calls), observation=form)
        last = play(env)[-1].observation
        assert env.observation_space.contains(last)
        assert not any(np.any(part) for part in (last.values() if form == "dict" else [last]))


def test_a_decision_is_shown_in_words(calls: Path) -> None:
    env = InlineEnv(corpus=str(calls), render_mode="ansi")
    assert env.render() == "no decision is pending: no episode is started"
    env.reset()
    shown = env.render()
    assert shown is not None
    assert shown.splitlines()[0] == "inlining decision 0 of calls"
    assert re.search(r"callee +1 blocks, \d users", shown)
    assert re.search(r"cost estimate +-?\d+ against a threshold of 5", shown)
    assert shown.endswith("clang would inline the call")
    env.step(0)
    after = env.render()
    assert after is not None
    assert after.splitlines()[0] == "inlining decision 1 of calls"
    assert after.endswith("the decision before: keep the call")
    over = False
    while not over:
        *_, over, _, _ = env.step(0)
    last = env.render()
    assert last is not None
    assert re.match(r"calls is compiled, after \d+ decisions\n", last)
    assert re.search(r"than clang alone$", last)
    env.close()
    assert env.render() == "no decision is pending: no episode is started"


def test_without_a_render_mode_nothing_is_shown(env: InlineEnv) -> None:
    env.reset()
    assert env.render() is None


# Actions


@pytest.mark.parametrize("action", [1, True, 1.0, np.int64(1), np.array(1), np.float32(1)], ids=repr)
def test_every_spelling_of_one_is_one(env: InlineEnv, action: Any) -> None:
    env.reset()
    assert not env.step(action)[4].get("illegal_action")


ILLEGAL = [2, -1, np.array([2])]
NO_ACTIONS = [0.5, math.nan, math.inf, None, "inline", "1", [], [0, 1], np.array([1, 1])]


@pytest.mark.parametrize("action", ILLEGAL, ids=repr)
def test_an_illegal_action_is_replaced_by_clangs_own_choice_on_request(calls: Path, action: Any) -> None:
    steps = [*play_first(InlineEnv(corpus=str(calls), strict=False), action)]
    assert steps[0].info["illegal_action"] is True
    assert not any(step.info.get("illegal_action") for step in steps[1:])
    assert steps[-1].reward == 0.0


def play_first(env: InlineEnv, action: Any) -> list[Step]:
    """Play one action, then clang's own choices."""
    env.reset()
    first = Step(*env.step(action))
    info = first.info
    steps = [first]
    while not steps[-1].terminated:
        steps.append(Step(*env.step(info["default_action"])))
        info = steps[-1].info
    env.close()
    return steps


@pytest.mark.parametrize("action", ILLEGAL, ids=repr)
def test_an_illegal_action_raises_and_a_legal_one_is_waited_for(env: InlineEnv, action: Any) -> None:
    env.reset()
    with pytest.raises(ActionError, match=r"expected a legal action among Discrete\(2\), got"):
        env.step(action)
    assert env.step(1)[4]["decision_index"] == 1


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("action", NO_ACTIONS, ids=repr)
def test_what_is_no_action_raises_and_an_action_is_waited_for(calls: Path, action: Any, strict: bool) -> None:
    env = InlineEnv(corpus=str(calls), strict=strict)
    env.reset()
    with pytest.raises(ActionError, match=r"expected an action, an element of Discrete\(2\), got"):
        env.step(action)
    assert env.step(1)[4]["decision_index"] == 1
    env.close()


def test_every_action_is_legal_so_the_mask_is_all_ones(env: InlineEnv) -> None:
    _, info = env.reset()
    masks = env.action_masks()
    assert masks is not None
    assert masks.tolist() == [1, 1]
    assert "action_mask" not in info


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


def test_the_last_info_has_every_size(calls: Path, measured: tuple[bytes, bytes], tmp_path: Path) -> None:
    info = play(InlineEnv(corpus=str(calls)), 0)[-1].info
    for label, data in (("", measured[0]), ("baseline_", measured[1])):
        found = [info[f"{label}{key}"] for key in ("text", "llvm_size", "object")]
        assert found == [size(metric, data, tmp_path) for metric in METRICS]


def test_info_has_these_keys_and_no_others(env: InlineEnv) -> None:
    _, info = env.reset()
    assert set(info) == {"module", "context", "decision_index", "default_action"}
    assert (info["module"], info["context"]) == ("calls", "")
    sizes = {f"{label}{key}" for label in ("", "baseline_") for key in ("text", "llvm_size", "object")}
    assert (
        set(play(env)[-1].info)
        == {"module", "decisions", "handed_over", "illegal_action", "error", "reduction"} | sizes
    )


def test_the_baseline_is_a_plain_compile_with_the_same_flags(env: InlineEnv) -> None:
    info = play(env, 0)[-1].info
    compilation = env.compilation(env.corpus.module("calls"))
    assert info["baseline_text"] == measure_baseline(compilation, 30).sizes_by_metric()["text"]
