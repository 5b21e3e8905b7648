"""Callees of decisions are predicted; callee features are part of every observation."""

import random
from collections import Counter
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest

from mlgo_gym import CALLEE_FEATURES, CompilerEnv, MlgoError
from mlgo_gym.compiler import inlining_output
from mlgo_gym.compiler.decision import Decision
from mlgo_gym.compiler.inlining_output import InliningOutput
from mlgo_gym.compiler.session import Session
from mlgo_gym.envs import InlineEnv
from mlgo_gym.episode.attribution.inline_compile import run_inline_compile
from mlgo_gym.llvm.advisors import INLINING
from mlgo_gym.llvm.link_facts import LinkFacts
from mlgo_gym.llvm.object_file import read_elf, read_symbol_table
from mlgo_gym.llvm.toolchain import Toolchain
from mlgo_gym.make_env import make_environment

SOURCE = r"""
extern "C" int outside(int);
static int leaf(int) __asm__("l\"e\\af é");
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
    env = InlineEnv(corpus=bitcode, callee_features=True)
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
    names = {"leaf": 'l"e\\af é', "middle": "_Z6middlei", "once": "_ZL4oncei", "rare": "_Z4rarei"}
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
        env = InlineEnv(observation=form, callee_features=True)
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


LONG = 30.0


@pytest.mark.parametrize(("name", "share"), [("cpp/variant_vm", 0.5), ("c/btree", 0.2)])
def test_counts_are_those_of_the_earlier_decisions_with_the_callees_that_clang_names(name: str, share: float) -> None:
    env = make_environment("mlgo/Inline-v0", {"corpus": "builtin"})
    command = env.compilation(env.corpus.module(name)).command
    with Session(command) as session:
        table = read_symbol_table(read_elf(session.finish(LONG).object_bytes))
    assert table is not None
    names = sorted({*table.names(table.symbols[table.functions])})
    facts = LinkFacts({name: (number % 3, number % 2) for number, name in enumerate(names[::2])})
    chance, decisions, answers = random.Random(name), list[Decision](), list[int]()
    with Session(command, [INLINING], contexts=True, callee_features=True, link_facts=facts) as session:
        while (decision := session.wait(LONG)) is not None:
            decisions.append(decision)
            answers.append(int(chance.random() < share))
            session.advise(answers[-1].to_bytes(8, "little"))
        callees = session.callees()
    assert all(callees)
    counts = Counter[tuple[object, ...]]()
    copies = set()
    for decision, answer, callee in zip(decisions, answers, callees, strict=True):
        context, predicted = decision.context, decision.callee
        row = dict(zip(CALLEE_FEATURES, features_of(decision), strict=True))
        found = counts["callee", predicted, 0], counts["callee", predicted, 1]
        assert (row["callee_kept"], row["callee_inlined"]) == found
        assert (row["caller_kept"], row["caller_inlined"]) == (counts["in", context, 0], counts["in", context, 1])
        assert row["callee_inner_inlined"] == counts["in", predicted, 1]
        assert row["pair_kept"] == counts["pair", context, predicted, 0]
        assert row["module_decisions"] == counts["all", answer] + counts["all", 1 - answer]
        assert (row["callee_copies"], row["callee_references"]) == facts.of(predicted or "")
        copies.add(row["callee_copies"])
        keys = ("callee", callee, answer), ("in", context, answer), ("pair", context, callee, answer), ("all", answer)
        counts.update(keys)
    assert len(copies) == 3
    assert sum(decision.callee == callee for decision, callee in zip(decisions, callees, strict=True)) > 0.8 * len(
        callees
    )


def features_of(decision: Decision) -> list[float]:
    values: list[float] = np.frombuffer(decision.payload[-4 * len(CALLEE_FEATURES) :], "<f4").tolist()
    return values


@pytest.mark.parametrize("cache", ["writable", "unwritable"])
def test_other_output_of_clang_is_kept(cache: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if cache == "unwritable":
        (tmp_path / "file").touch()
        monkeypatch.setenv("MLGO_CACHE", f"{tmp_path}/file/cache")
        inlining_output._library.cache_clear()
    printed = (
        b"warning: before\n"
        b"; *** IR Dump Before InlinerPass on (g, f) ***\n"
        b"; Function Attrs: nounwind\n"
        b"define void @f() {\n  call void @g()\n\n3:                 ; preds = %2\n  ret void\n}\n"
        b"; *** IR Dump Before CoroSplitPass on (f) ***\ndefine void @f() {\n  ret void\n}\n"
        b"remark: <unknown>:0:0: g12true [-Rpass=inline-ml]\n"
        b"a.c:3:4: remark: h12false [-Rpass-missed=inline-ml]\n"
        b"warning: after\nincomplete"
    )
    for size in (1, 7, len(printed)):
        output = InliningOutput()
        for start in range(0, len(printed), size):
            output.read(printed[start : start + size])
        assert output.messages() == b"warning: before\nwarning: after\n"
        assert output.messages() == b""
        assert output.unfinished == b"incomplete"
