"""Callees of decisions are predicted, and callee features are part of every form of observation."""

from pathlib import Path

import gymnasium as gym
import pytest

from mlgo_gym import CALLEE_FEATURES, CompilerEnv, MlgoError
from mlgo_gym.episode.attribution.inline_compile import run_inline_compile
from mlgo_gym.llvm.toolchain import Toolchain

SOURCE = """
extern "C" int outside(int);
static int leaf(int x) { return outside(x) * x; }
inline int middle(int x) { return leaf(x) + leaf(x + 1); }
static __attribute__((noinline)) int hidden(int x) { return x > 3 ? x : outside(x); }
static int once(int x) { return outside(x) * outside(x + 1); }
inline int rare(int x) { return outside(x) + outside(x + 2); }
extern "C" int top(int x) { return middle(x) + hidden(x) + leaf(x + 2); }
extern "C" int last(int x) { return middle(x) + once(x) + rare(x); }
"""
"""Inlining `middle` into `top` appends two calls of `leaf`; nobody decides about `hidden`."""

ANSWERS = (0, 0, 1, 0, 1, 1, 0, 0, 1)

# Linkages (0 internal, 1 linkonce, 4 other), unnamed, comdat; lines and calls of the callee; other functions, visits
# and decisions; calls of the callee that were kept, inlined, and are left; last; the same in the caller, for the
# pair, and within the callee; decisions in the module.
FEATURES = """
_Z6middlei leaf    0 1 0 1  3 1  0 0 0  0 0  3 0  0 0  0 0  0 0  0
_Z6middlei leaf    0 1 0 1  3 1  0 0 1  1 0  2 0  0 1  0 1  0 0  1
top        middle  1 1 1 4  5 2  0 0 0  0 0  3 0  0 0  0 0  0 2  2
top        leaf    0 1 0 4  3 1  0 0 1  2 0  1 0  1 0  0 0  0 0  3
top        leaf    0 1 0 4  3 1  0 0 2  3 0  0 0  1 1  0 1  0 0  4
top        leaf    0 1 0 4  3 1  0 0 3  3 1  0 0  2 1  1 1  0 0  5
last       middle  1 1 1 4  5 2  0 0 0  0 1  3 0  0 0  0 0  0 2  6
last       once    0 1 0 4  5 2  0 0 1  0 0  1 1  0 1  0 0  0 0  7
last       rare    1 1 1 4  5 2  0 0 2  0 0  2 1  0 2  0 0  0 0  8
"""


@pytest.mark.parametrize("flags", [[], ["-g"]], ids=["plain", "debug"])
def test_callee_features_count_the_calls_of_a_compile(flags: list[str], toolchain: Toolchain, tmp_path: Path) -> None:
    (tmp_path / "calls.cpp").write_text(SOURCE)
    words = ["-Oz", "-fPIC", "-Xclang", "-disable-llvm-passes", "-emit-llvm", "-c", str(tmp_path / "calls.cpp")]
    bitcode = tmp_path / "calls.bc"
    result = toolchain.run(["--target=x86_64-unknown-linux-musl", *flags, *words, "-o", str(bitcode)])
    assert result.returncode == 0, result.stderr
    env = gym.make("mlgo/Inline-v0", corpus=bitcode, callee_features=True).unwrapped
    assert isinstance(env, CompilerEnv)
    observation, info = env.reset()
    lines = []
    for number, answer in enumerate(ANSWERS):
        values = dict(zip(env.feature_names, observation.tolist(), strict=True))
        features = {name: values[name] for name in CALLEE_FEATURES}
        assert features.pop("module_share") == pytest.approx(number / values["node_count"])
        lines.append([info["site"].context, info["callee"], *map(int, features.values())])
        if number == 3:
            copied = env.fork()
        observation, _, over, _, info = env.step(answer)
    env.close()
    assert over
    names = {"leaf": "_ZL4leafi", "middle": "_Z6middlei", "once": "_ZL4oncei", "rare": "_Z4rarei"}
    rows = [line.split() for line in FEATURES.strip().splitlines()]
    unknown = [-1, -1]  # link facts
    assert lines == [[context, names[callee], *map(int, numbers), *unknown] for context, callee, *numbers in rows]
    # A copy has counted what its original had.
    observation, *_ = copied.step(1)
    values = dict(zip(env.feature_names, observation.tolist(), strict=True))
    assert (values["module_decisions"], values["callee_inlined"]) == (4, 1)
    copied.close()


def test_nearly_all_callees_of_a_module_are_predicted_and_every_form_has_the_features() -> None:
    for form in ("flat", "vector"):
        env = gym.make("mlgo/Inline-v0", observation=form, callee_features=True).unwrapped
        assert isinstance(env, CompilerEnv)
        assert env.feature_names[-len(CALLEE_FEATURES) :] == tuple(CALLEE_FEATURES)
        observation, info = env.reset(options={"module": "c/scheduler"})
        assert info["callee"]
        for decisions in range(2):
            assert env.observation_space.contains(observation)
            values = dict(zip(env.feature_names, observation.tolist(), strict=True))
            assert values["module_decisions"] == decisions
            observation, *_ = env.step(1)
        env.close()
    assert isinstance(env, CompilerEnv)
    compilation, own = env.compilation(env.corpus.module("cpp/lexer_parser")), env.task.default_action
    compiled = run_inline_compile(compilation, env.task, lambda decision: int(own(decision)), 60.0)
    correct = [decision.predicted_callee == decision.callee for decision in compiled.decisions]
    assert len(correct) > 100
    assert sum(correct) > 0.9 * len(correct)
    with pytest.raises(MlgoError, match="unexpected keyword argument 'callee_features'"):
        gym.make("mlgo/RegAllocEvict-v0", callee_features=True)
