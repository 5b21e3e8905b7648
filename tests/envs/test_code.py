"""The code and the call graph at inlining decisions: on demand, as an observation, and nothing without the argument."""

import copy
import os
import pickle
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from mlgo_gym import ActionError, MlgoError, evaluate, explain_module, search_module
from mlgo_gym.compiler.decision_code import EDGE_COLUMNS
from mlgo_gym.compiler.inlining_output import CONTEXT_FLAGS
from mlgo_gym.compiler.printed_blocks import block_facts, split_blocks
from mlgo_gym.compiler.printed_module import BEFORE, LEFT, PARSE_FLAGS
from mlgo_gym.envs import InlineEnv
from mlgo_gym.episode.attribution.inline_compile import run_inline_compile
from mlgo_gym.evaluation.record import unpack_actions
from mlgo_gym.evaluation.trace import trace
from mlgo_gym.policies.protocol import decide
from tests.conftest import MakeBitcode
from tests.policies.episodes import play

MODULE = {"module": "c/scheduler"}


def decisions(env: InlineEnv, name: str = MODULE["module"]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Pause at each decision of a module under clang's own choices; yield the callee that clang names, and the info."""
    module, task = env.corpus.module(name), env.task
    compiled = run_inline_compile(env.compilation(module), task, lambda pending: int(task.default_action(pending)), 60)
    _, info = env.reset(options={"module": name})
    for number, decision in enumerate(compiled.decisions, start=1):
        yield decision.callee, info
        _, _, done, _, info = env.step(info.get("default_action"))
        assert done is (number == len(compiled.decisions))


def assert_parses(env: InlineEnv, text: str, folder: Path, action: str) -> None:
    (path := folder / "text.ll").write_text(text)
    flags = ["-disable-llvm-passes", *PARSE_FLAGS]
    result = env.toolchain.run(["-cc1", "-triple", "x86_64", action, "-o", "/dev/null", *flags, str(path)])
    assert result.returncode == 0, result.stderr


def test_the_code_at_each_decision_is_that_of_clang_and_parses(tmp_path: Path) -> None:
    with InlineEnv(ir=True) as env:
        seen: Counter[str] = Counter()
        texts: dict[str, str] = {}
        for callee, _ in decisions(env):
            ir = env.ir()
            # Only components of several functions leave a call unknown.
            seen["unknown"] += not ir.callee
            seen["wrong"] += ir.callee not in ("", callee)
            if not ir.callee:
                continue
            seen["known"] += 1
            assert f"@{ir.callee}(" in ir.call
            assert f"define {ir.caller_code.partition('define ')[2]}" in ir.text
            seen[f"caller {ir.caller_state}"] += 1
            seen[f"callee {ir.callee_state}"] += 1
            assert ir.call in ir.text
            texts[f"{ir.caller} {ir.callee}"] = ir.text
            if seen["known"] % 5:
                continue
            graph = env.call_graph()
            assert graph.functions[0] == ir.caller
            assert ir.callee in graph.functions[:2]
            edges = {
                (graph.functions[caller], graph.functions[called]): calls
                for (caller, called), (calls, *_) in zip(graph.edge_links.tolist(), graph.edges.tolist(), strict=True)
            }
            own = Counter(re.findall(r"(?:call|invoke) [^@\n]*@([\w.$]+)\(", ir.caller_code))
            assert {pair[1]: calls for pair, calls in edges.items() if pair[0] == ir.caller and calls} == {
                name: calls for name, calls in own.items() if not name.startswith("llvm.")
            }
            assert graph.edges[:, EDGE_COLUMNS.index("decision")].tolist() == [1, *[0] * (len(edges) - 1)]
        assert seen["known"] > 100
        assert seen["wrong"] < 0.02 * seen["known"]
        assert seen[f"caller {BEFORE}"] == seen["known"]
        assert seen[f"callee {LEFT}"] > 0.8 * seen["known"]
        for text in [*texts.values()][::40]:
            assert_parses(env, text, tmp_path, "-emit-obj")


def test_a_graph_is_an_observation_and_changes_no_compile(calls: Path, tmp_path: Path) -> None:
    def play(env: InlineEnv) -> tuple[list[Any], tuple[float, float]]:
        observation, info = env.reset()
        observations, done = [observation], False
        while not done:
            observation, reward, done, _, info = env.step(len(observations) % 2)
            observations.append(observation)
        return observations, (float(reward), info["text"])

    env, flat = InlineEnv(corpus=calls, observation="graph", max_functions=3), InlineEnv(corpus=calls, ir=True)
    check_env(env, skip_render_check=True)
    observations, outcome = play(env)
    vectors, flat_outcome = play(flat)
    assert outcome == flat_outcome == play(InlineEnv(corpus=calls))[1]
    for graph, vector in zip(observations[:-1], vectors, strict=False):
        assert env.observation_space.contains(graph)
        assert len(graph.nodes) <= 3
        np.testing.assert_array_equal(graph.edges[0, len(EDGE_COLUMNS) :], vector)
    assert env.observation_space.contains(observations[-1])
    assert [len(graph.nodes) for graph in (env.reset()[0], observations[-1])] == [3, 1]
    copied = env.fork()
    env.step(1)
    assert copied.ir() != env.ir()
    assert copied.call_graph().edges[:, EDGE_COLUMNS.index("inlined")].sum() == 0
    assert env.call_graph().edges[:, EDGE_COLUMNS.index("inlined")].sum() == 1
    copied.close()
    env.close()
    envs = gym.make_vec("mlgo/Inline-v0", num_envs=2, corpus=calls, observation="graph")
    first, _ = envs.reset()
    assert envs.observation_space.contains(first)
    assert [len(graph.nodes) for graph in envs.step(np.array([1, 0]))[0]] == [6, 6]
    envs.close()
    arguments = {"observation": "graph"}
    result = trace("mlgo/Inline-v0", "threshold:0", corpus=str(calls), output=tmp_path / "t", env_kwargs=arguments)
    assert result.episodes[0].decisions == len(observations) - 1
    flat = InlineEnv(corpus=calls)
    flat.reset()
    with pytest.raises(MlgoError, match=r"expected an inlining environment with ir=True for ir\(\), got another"):
        flat.ir()
    with pytest.raises(MlgoError, match="expected max_functions ≥ 2, got 1"):
        InlineEnv(max_functions=1)


def test_a_graph_converts(calls: Path) -> None:
    networkx = pytest.importorskip("networkx")
    env = InlineEnv(corpus=calls, ir=True)
    env.reset()
    graph = env.call_graph()
    converted = graph.to_networkx()
    assert isinstance(converted, networkx.DiGraph)
    assert list(converted) == list(graph.functions)
    assert sum(calls for *_, calls in converted.edges(data="calls")) == graph.edges[:, 0].sum()
    env.close()
    pytest.importorskip("torch_geometric")
    data = graph.to_pyg()
    assert data.validate()
    assert data.num_edges == len(graph.edges)


class ReadsCode:
    """Inlines short code, or callees of graphs with an odd number of edges."""

    def act(self, observation: Any, info: Mapping[str, Any]) -> int:
        ir, graph = info["code"].ir(), info["code"].call_graph(4)
        assert graph.functions[0] == ir.caller
        edges = getattr(observation, "edges", graph.edges)
        return int(ir.callee_code.count("\n") + len(edges)) % 2


@pytest.mark.parametrize("arguments", [{"ir": True}, {"observation": "graph"}], ids=str)
def test_each_way_to_play_gives_policies_code_and_graph(arguments: dict[str, Any], calls: Path, tmp_path: Path) -> None:
    policies = {"ReadsCode": f"{__file__}:ReadsCode"} | {name: name for name in ("default", "threshold:0", "random")}
    with InlineEnv(corpus=calls, **arguments) as env:
        (name,) = [module.name for module in env.corpus]
        alone, info = play(env, ReadsCode(), name)
        assert info["decisions"] == len(alone) > 5
        assert 0 < sum(alone) < len(alone)
        result = evaluate("mlgo/Inline-v0", policies=policies, corpus=str(calls), env_kwargs=arguments)
        assert not result.failures
        actions = {episode.policy: episode.actions for episode in result.episodes}
        assert unpack_actions(actions["ReadsCode"] or "", env.action_space) == alone
        assert len({actions[policy] for policy in ("default", "threshold:0", "ReadsCode")}) == 3
        traced = trace(
            "mlgo/Inline-v0", policies["ReadsCode"], corpus=str(calls), output=tmp_path / "t", env_kwargs=arguments
        )
        assert unpack_actions(traced.episodes[0].actions or "", env.action_space) == alone
        module = env.corpus.module(name)
        chosen = partial(decide, ReadsCode(), env.task)
        counts = iter(range(len(alone)))
        compiled = run_inline_compile(
            env.compilation(module), env.task, lambda pending: int(chosen(pending, name, next(counts))), 60
        )
        assert [decision.answer for decision in compiled.decisions] == alone
        found = search_module(env, module, compiles=4, start=policies["ReadsCode"])
        assert len(found.actions) > 5
        with pytest.raises(MlgoError, match="expected an environment without code"):
            explain_module(env, name, ("default", "always"))


def test_the_code_in_infos_is_that_of_its_decision_and_can_be_copied(calls: Path) -> None:
    env = InlineEnv(corpus=calls, ir=True)
    _, first = env.reset()
    ir, graph = env.ir(), env.call_graph()
    kept = [copy.deepcopy(first), pickle.loads(pickle.dumps(first))]
    *_, second = env.step(1)
    assert second["code"].ir() == env.ir() != ir
    for info in kept:
        assert info["code"].ir() == ir
        assert info["code"].call_graph().edges.tolist() == graph.edges.tolist()
    with pytest.raises(ActionError, match="got one of an answered decision"):
        first["code"].ir()
    with pytest.raises(ActionError, match="got one of an answered decision"):
        copy.deepcopy(first)["code"].call_graph()
    env.close()
    assert "code" not in InlineEnv(corpus=calls, ir=True, info="numeric").reset()[1]
    # With the module in the id: torchrl makes `spawn` the start method of the whole process.
    making = partial(gym.make, "mlgo_gym:mlgo/Inline-v0", corpus=calls, observation="graph")
    for envs in (gym.vector.AsyncVectorEnv([making] * 2, shared_memory=False), gym.vector.SyncVectorEnv([making] * 2)):
        _, infos = envs.reset()
        assert [code.ir() for code in infos["code"]] == [ir, ir]
        envs.close()


CYCLE = """
int other(int);
static int leaf(int x) { int y = x; for (int i = 0; i < x; i++) y = y * 31 + other(i); return y; }
int ping(int n) { return n < 1 ? leaf(n) : leaf(n * 3) + other(n) + leaf(n + 1); }
int zag(int);
int zig(int n) { return n < 1 ? ping(n) : zag(n - 1) + ping(n + 1) + leaf(n); }
int zag(int n) { return n < 2 ? leaf(n) : zig(n - 2) + ping(n * 3) + ping(n); }
extern int nick(int) __attribute__((alias("zig")));
static int twice(int n) { return n < 2 ? other(n) : twice(n - 1) + other(n) + twice(n - 2); }
int outer(int n) { return zig(n) + nick(n) + twice(n) + leaf(n); }
"""


def test_a_call_of_unknown_origin_has_no_caller_and_aliases_an_edge(make_bitcode: MakeBitcode, tmp_path: Path) -> None:
    (source := tmp_path / "cycle.c").write_text(CYCLE)
    with InlineEnv(corpus=make_bitcode(source), ir=True, max_decisions=8) as env:
        _, info = env.reset()
        unknown, done = 0, False
        while not done:
            for limit in (None, 8):
                graph, ir = env.call_graph(limit), env.ir()
                links = [tuple(graph.functions[node] for node in link) for link in graph.edge_links.tolist()]
                aliases = graph.edges[:, EDGE_COLUMNS.index("alias")].tolist()
                assert [link for link, alias in zip(links, aliases, strict=True) if alias] == [("nick", "zig")]
                assert (ir.caller == "") == (ir.callee == "")
                if not ir.caller:
                    assert info["context"] == "zag, zig"
                    assert (ir.text, ir.call, links[0]) == ("", "", ("", ""))
                    assert graph.functions[:3] == ("", "zag", "zig")
                    assert not graph.nodes[0].any()
                    unknown += 1
            *_, done, _, info = env.step(info["decision_index"] % 2)
        assert unknown > 1


LOOPS = """
int other(int);
static int leaf(int x) { return x * 31 + other(x) * x + other(x + 1); }
int outer(int n) {
  for (int i = 0; i < n; i++)
    for (int j = 0; j < n; j++)
      other(j);
  if (n % 8 == 3) other(1);
  while (other(n)) n = leaf(n);
  return leaf(n);
}
"""


def test_edges_have_the_place_of_their_calls(make_bitcode: MakeBitcode, tmp_path: Path) -> None:
    (source := tmp_path / "loops.c").write_text(LOOPS)
    env = InlineEnv(corpus=make_bitcode(source), ir=True)
    env.reset()
    places, done = [], False
    while not done:
        graph = env.call_graph()
        rows = [dict(zip(EDGE_COLUMNS, row, strict=True)) for row in graph.edges.tolist()]
        links = [tuple(graph.functions[node] for node in link) for link in graph.edge_links.tolist()]
        edges = {
            link: [row[name] for name in ("calls", "position", "loop_depth", "frequency")]
            for link, row in zip(links, rows, strict=True)
        }
        assert edges["leaf", "other"] == [2, 1, 0, 2000]
        assert edges["outer", "other"] == [3, 1, 2, 31 * 31_000 + 500 + 32_000]
        places.append(edges["outer", "leaf"])
        *_, done, _, _ = env.step(0)
    # The pending call: in the loop, then after it.
    assert places == [[2, 4, 1, 31_000], [2, 5, 0, 1000]]
    env.close()


@pytest.mark.parametrize("name", ["cpp/lexer_parser", pytest.param("modern/pmr", marks=pytest.mark.slow)])
def test_the_frequencies_of_blocks_are_those_of_clang(name: str) -> None:
    env = InlineEnv()
    compilation = env.compilation(env.corpus.module(name))
    flags = [*compilation.flags, *CONTEXT_FLAGS, "-mllvm", "-print-bfi", "-fdiagnostics-show-hotness", "-Rpass=inline"]
    printed = env.toolchain.run([*flags, *compilation.inputs, "-o", os.devnull]).stderr
    functions = re.split(r"^; \*\*\* IR Dump Before InlinerPass on [^\n]*\n", printed, flags=re.MULTILINE)[1:]
    equal = []
    for code, _, rest in (part.partition("\n}\n") for part in functions):
        if (clang := re.match(r"[^b]*block-frequency-info: .*\n((?: - .*\n)+)", rest)) is not None:
            frequencies = [float(number) for number in re.findall(r"float = ([\d.e+-]+)", clang[1])]
            found = [runs for _, runs in block_facts(split_blocks(code.partition("{\n")[2]))]
            equal.append(found == pytest.approx(frequencies, rel=0.02, abs=1e-3))
    assert len(equal) > 80
    # Clang has heuristics for comparisons with null and zero, too.
    assert sum(equal) > 0.9 * len(equal)
    env.close()


def test_outside_cycles_the_code_names_callees_that_features_do_not(make_bitcode: MakeBitcode, tmp_path: Path) -> None:
    (source := tmp_path / "cycle.c").write_text(CYCLE)
    with InlineEnv(corpus=make_bitcode(source), ir=True, callee_features=True) as env:
        wrong = 0
        for callee, info in decisions(env, env.corpus[0].name):
            if len(info["site"].functions) == 1:
                assert info["code"].ir().callee == callee
                assert info["code"].ir().caller == info["context"]
                wrong += info["callee"] != callee
        assert wrong
