"""`mlgo/RegAllocEvict-v0` and `mlgo/RegAllocPriority-v0`: actions, costs, and episodes of one function."""

import math
import re
import struct
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlgo_gym import ActionError, CompilerEnv, CorpusError, MlgoError
from mlgo_gym.compiler.snapshot_support import snapshot_support
from mlgo_gym.envs import RegAllocEvictEnv, RegAllocPriorityEnv
from mlgo_gym.envs.regalloc_priority import SCALE, size_order
from mlgo_gym.llvm.toolchain import Toolchain
from mlgo_gym.tasks.features import NEWER_STAGES_SINCE, OLDER_STAGES, STAGES
from tests.allocation import costs
from tests.conftest import MakeBitcode, clang_argument
from tests.fakes.compiles import finished_compiles, running_compile
from tests.fakes.drive import Step, finish, play, run

pytestmark = pytest.mark.usefixtures("nothing_is_left")

MakeEnv = Callable[..., CompilerEnv]

both = pytest.mark.parametrize("kind", [RegAllocEvictEnv, RegAllocPriorityEnv])
needs_snapshots = pytest.mark.skipif(not snapshot_support()[0], reason=f"no snapshots here: {snapshot_support()[1]}")

COLUMNS = 33
SPLIT = 2


@pytest.fixture(scope="module")
def spills(make_bitcode: MakeBitcode) -> str:
    """A module of two functions that spill, `straight` and `looping`, and one that does not, `easy`."""
    return str(make_bitcode("spills.c"))


def play_legal(env: CompilerEnv, seed: int, share: float = 1.0, **options: str) -> list[Step]:
    """Answer a share of the decisions with random legal actions, all others as clang; leave the environment open."""
    chance = np.random.default_rng(seed)

    def choose(info: dict[str, Any]) -> Any:
        mask = info.get("action_mask")
        action = chance.random(1, np.float32) if mask is None else int(chance.choice(np.flatnonzero(mask)))
        return action if chance.random() < share else info["default_action"]

    steps = finish(env, env.reset(options=options)[1], choose)
    assert not any(step.truncated or step.info.get("illegal_action") for step in steps), steps[-1].info
    return steps


# Observations and actions


def test_every_clang_numbers_the_stages_as_the_table_says(any_toolchain: Toolchain, make_bitcode: MakeBitcode) -> None:
    bitcode = make_bitcode("spills.c", compiler=any_toolchain)
    env = RegAllocPriorityEnv(corpus=str(bitcode), clang=clang_argument(any_toolchain))
    stages = STAGES if any_toolchain.version[0] >= NEWER_STAGES_SINCE else OLDER_STAGES
    observation, info = env.reset()
    shown = set()
    while "default_action" in info:
        shown.add((int(observation[1]), stages[int(observation[1])]))
        observation, *_, info = env.step(info["default_action"])
    env.close()
    # Spilling leaves live ranges of one instruction each; they are done and cannot be spilled again.
    assert ((5 if any_toolchain.version[0] >= 21 else 6), "done") in shown
    assert {name for _, name in shown} == {"assign", "split", "split2", "spill", "done"}


def test_a_masked_column_raises_and_the_legal_ones_are_named(spills: str) -> None:
    with RegAllocEvictEnv(corpus=spills) as env:
        _, info = env.reset()
        legal = np.flatnonzero(info["action_mask"]).tolist()
        for illegal in (int(np.flatnonzero(info["action_mask"] == 0)[0]), -1, COLUMNS, np.array([1000])):
            with pytest.raises(ActionError, match=re.escape(f"expected a legal action among {legal}, got ")):
                env.step(illegal)
        for nothing in (0.5, math.nan, None, "evict", [1, 2]):
            with pytest.raises(ActionError, match=r"expected an action, an element of Discrete\(33\), got"):
                env.step(nothing)
        assert env.step(legal[0])[4]["decision_index"] == 1


def test_clang_receives_the_priority_as_float32(spills: str) -> None:
    env = RegAllocPriorityEnv(
        corpus=spills, compile_options={"extra_flags": ["-mllvm", "-interactive-model-runner-echo-reply"]}
    )
    env.reset()
    for action in (0, 1, 0.5, [0.5], np.array([0.25], np.float32), np.float64(0.125)):
        env.step(action)
        expected = struct.pack("<f", SCALE * float(np.asarray(action).item()))
        assert running_compile(env).advice[-1] == expected
        # Beyond the largest float32 below 2^32 clang's conversion wraps, or gives 0.
        assert 0 <= struct.unpack("<f", expected)[0] <= 4294967040
    env.reset()
    session = running_compile(env).session
    while env.step(0.75)[4].get("text") is None:
        pass
    assert {float(number) for number in re.findall(r"\d[\d.e+]*", session.stderr)} == {0.75 * SCALE}


sizes, stages = st.integers(0, 2**32 - 1), st.integers(0, 6)


@given(sizes, stages, sizes, stages)
def test_longer_live_ranges_come_first_and_those_to_be_split_last(one: int, first: int, two: int, second: int) -> None:
    limit = 2**23 - 1
    actions = [np.float32(size_order(one, first)), np.float32(size_order(two, second))]
    keys = [(stage != SPLIT, min(size, limit)) for size, stage in ((one, first), (two, second))]
    assert (actions[0] < actions[1]) == (keys[0] < keys[1])
    assert (actions[0] == actions[1]) == (keys[0] == keys[1])
    assert 0 <= actions[0] <= 1


# clang's own choices


def test_default_evictions_change_nothing(any_toolchain: Toolchain, make_bitcode: MakeBitcode, own_cache: Any) -> None:
    bitcode = make_bitcode("pressure.c", compiler=any_toolchain)
    with finished_compiles() as compiles:
        last = play(RegAllocEvictEnv(corpus=str(bitcode), clang=clang_argument(any_toolchain)))[-1]
    ours, plain = compiles
    assert (ours.plain, plain.plain) == (False, True)
    assert ours.object_bytes == plain.object_bytes
    assert last.reward == 0.0


# Rewards


def test_the_costs_are_those_of_clangs_record(spills: str, own_cache: Any) -> None:
    with finished_compiles() as compiles, RegAllocEvictEnv(corpus=spills) as env:
        last = play_legal(env, 3)[-1]
    info = last.info
    cost, baseline = info["spill_cost"], info["baseline_spill_cost"]
    assert info["reduction"] == (baseline - cost) / max(baseline, 1.0)
    assert last.reward == max(info["reduction"], -10.0)
    for prefix, compiled in zip(("", "baseline_"), compiles, strict=True):
        expected = costs(compiled.optimization_record)
        rows = {row["function"]: row for row in info["functions"]}
        for function, cost in expected.items():
            assert rows[function][f"{prefix}spill_cost"] == pytest.approx(cost)
        assert info[f"{prefix}spill_cost"] == pytest.approx(sum(expected.values()))
        assert info[f"{prefix}spill_cost"] == pytest.approx(sum(row[f"{prefix}spill_cost"] for row in rows.values()))
    assert info["spill_cost"] > 0


# Episodes of one function


@both
@pytest.mark.parametrize("program", ["spills.c", "pressure.c"])
def test_an_episode_of_a_function_tells_what_a_whole_compile_tells_of_it(
    kind: MakeEnv, program: str, make_bitcode: MakeBitcode, any_toolchain: Toolchain
) -> None:
    bitcode, clang = str(make_bitcode(program, compiler=any_toolchain)), clang_argument(any_toolchain)
    options: dict[str, Any] = {"corpus": bitcode, "clang": clang, "scope": "function", "max_decisions": 60}
    ours, whole = kind(**options), kind(**options, metric="text")
    module = ours.corpus[0]
    sizes = {f"{label}{name}" for label in ("", "baseline_") for name in ("text", "llvm_size", "loaded", "object")}
    for seed, function in enumerate(ours.decisions(module)):
        steps = play_legal(ours, seed, 0.5, module=module.name, function=function)
        info = steps[-1].info
        expected = play_legal(whole, seed, 0.5, module=module.name, function=function)[-1].info
        assert {step.info["context"] for step in steps} == {function}
        assert [row["function"] for row in info["functions"]] == [function]
        assert info["decisions"] == len(steps) <= 60
        cost, baseline = expected["spill_cost"], expected["baseline_spill_cost"]
        assert steps[-1].reward == info["reduction"] == (baseline - cost) / max(baseline, 1.0)
        assert {*expected} - {*info} == sizes
        assert {key: info[key] for key in info if key != "reduction"} == {
            key: expected[key] for key in info if key != "reduction"
        }
    ours.close()
    whole.close()


def test_functions_are_sampled_among_those_with_decisions_or_chosen_with_their_module(spills: str) -> None:
    with RegAllocEvictEnv(corpus=spills) as env:
        contexts = [info["context"] for info in run(env)[0]]
        assert {name: contexts.count(name) for name in ("straight", "looping")} == env.decisions(env.corpus[0])
    with RegAllocEvictEnv(corpus=spills, scope="function") as env:
        contexts = [env.reset(seed=seed)[1]["context"] for seed in range(10)]
        assert {*contexts} == {"straight", "looping"}
        assert [env.reset(seed=seed)[1]["context"] for seed in range(10)] == contexts
        for name in ("easy", "no_such_function"):
            message = f"expected a decision on eviction in function '{name}' of .*, got none"
            with pytest.raises(CorpusError, match=message):
                env.reset(options={"module": "spills", "function": name})
        with pytest.raises(MlgoError, match='with the option "function", got'):
            env.reset(options={"function": "straight"})
    with RegAllocPriorityEnv(corpus=spills, scope="function", compile_options={"fork_resets": False}) as env:
        # The function before has spilled.
        costs_of = [
            play_legal(env, 1, module="spills", function=name)[-1].info["spill_cost"] for name in ("easy", "looping")
        ]
        assert costs_of[0] == 0 < costs_of[1]


@needs_snapshots
@both
def test_whichever_clang_an_episode_starts_from_it_is_the_same(kind: MakeEnv, spills: str) -> None:
    cold = kind(corpus=spills, scope="function", compile_options={"fork_resets": False})
    warm = kind(corpus=spills, scope="function")
    expected = {
        function: play_legal(cold, 2, module="spills", function=function)[-1] for function in ("straight", "looping")
    }
    methods = []
    # Fresh; a copy of the clang that waits at the function before; of the one at the function itself; the first again.
    for function in ("straight", "looping", "looping", "straight"):
        warm.reset(options={"module": "spills", "function": function})
        methods.append(running_compile(warm).fork_method)
        last = play_legal(warm, 2, module="spills", function=function)[-1]
        assert (last.reward, last.info) == (expected[function].reward, expected[function].info)
    assert methods == [None, "snapshot", "snapshot", "snapshot"]
    cold.close()
    warm.close()


@needs_snapshots
def test_a_clang_that_waits_further_on_is_no_start_for_an_earlier_function(spills: str) -> None:
    with RegAllocEvictEnv(corpus=spills, scope="function") as env:
        for function in ("looping", "straight"):
            _, info = env.reset(options={"module": "spills", "function": function})
            assert (info["context"], running_compile(env).fork_method) == (function, None)
