"""Why two policies make different code of a module, and the importance of the features of a policy."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

from mlgo_gym.envs import InlineEnv, RegAllocEvictEnv
from mlgo_gym.errors import MlgoError
from mlgo_gym.explanation import Explanation, explain_module
from mlgo_gym.explanation.call_graph import FIRST_INLINES, SECOND_INLINES, call_graph
from mlgo_gym.explanation.graph_picture import layered_layout, picture
from mlgo_gym.explanation.importance import Importance
from mlgo_gym.explanation.names import readable, readable_context, short_context, shortened
from mlgo_gym.explanation.page import as_page
from mlgo_gym.explanation.recorded_decisions import feature_groups
from mlgo_gym.explanation.text import WIDTH, as_text
from mlgo_gym.policies.network import Network
from mlgo_gym.session.protocol.callee_features import CALLEE_FEATURES
from mlgo_gym.session.protocol.decision import functions_of
from tests.conftest import MakeBitcode
from tests.reporting.runs import Page

MODULE = "c/markdown"


@pytest.fixture(scope="module")
def env() -> Iterator[InlineEnv]:
    env = InlineEnv(corpus="builtin@Os")
    yield env
    env.close()


@pytest.fixture(scope="module")
def found(env: InlineEnv) -> Explanation:
    return explain_module(env, MODULE, ("default", "inline-os-fast"), measured=4)


def test_sizes_functions_credit_and_measured_bytes_are_those_of_compiles(env: InlineEnv, found: Explanation) -> None:
    _, info = env.reset(options={"module": MODULE})
    over = False
    while not over:
        _, _, over, _, info = env.step(info["default_action"])
    assert (found.baseline, found.first.text) == (info["baseline_text"], info["text"])
    assert found.second.text < found.first.text
    unnamed = found.second.functions.unnamed - found.first.functions.unnamed
    assert sum(function.change for function in found.functions) == found.change - unnamed
    assert sum(difference.credited for difference in found.differences) == pytest.approx(found.change)
    difference = found.measured[0]
    env.reset(options={"module": MODULE})
    for answer in found.second.answers:
        env.step(answer)
    (undone,) = env.counterfactual(difference.decision_index)
    assert difference.measured == undone.cost - undone.alternative_cost
    assert difference.first == 1 - difference.decision.answer


def test_a_decisive_feature_changes_the_answer_at_the_median(make_bitcode: MakeBitcode) -> None:
    with InlineEnv(corpus=str(make_bitcode("families.c"))) as env:
        found = explain_module(env, env.corpus[0].name, ("never", "threshold:20"), measured=2)
    assert found.measured
    for shown in found.measured:
        assert [feature.name for feature in shown.features if feature.decisive_for] == ["cost_estimate"]
        assert shown.features[0].value < 20 <= shown.features[0].median
        assert shown.features[0].decisive_for == ("threshold:20",)


def test_random_and_equal_policies_are_recognised_and_other_tasks_refused(varied: str) -> None:
    with InlineEnv(corpus=varied) as env:
        found = explain_module(env, "mixed", ("default", "random"), measured=4)
        assert any("random" in shown.random_policies for shown in found.measured)
        found = explain_module(env, "mixed", ("never", "threshold:-100000"))
    assert (found.differences, found.functions, found.change) == ([], [], 0)
    assert "the same answers" in as_text(found)
    assert "nothing to explain" in as_page(found, "")
    with pytest.raises(MlgoError, match=r"use mlgo/Inline-v0"):
        explain_module(RegAllocEvictEnv(corpus=varied), "mixed", ("default", "random"))


def test_an_explanation_is_text_json_a_picture_and_a_page(found: Explanation) -> None:
    lines = as_text(found).splitlines()
    assert max(map(len, lines)) <= WIDTH + 3
    assert any("default inlines, inline-os-fast keeps the call" in line for line in lines)
    data = json.loads(json.dumps(found.to_json()))
    assert data["text"]["second"] - data["text"]["first"] == found.change
    assert data["differences"][0]["caller"] == ["put_line"]
    graph = call_graph(found)
    assert {edge.outcome for edge in graph.edges} >= {FIRST_INLINES, SECOND_INLINES}
    functions = [name for node in graph.nodes for name in functions_of(node.context)]
    assert len(set(functions)) == len(functions)
    drawn = ElementTree.fromstring(picture(graph, found.policies))
    assert len(drawn.findall("{*}g[@class='edge first-inlines']")) >= 1
    text = as_page(found, "mlgo-gym explain <b>")
    page = Page(text)
    assert (page.open, page.links, "script" in page.tags, "url(" in text) == ([], [], False, False)
    assert "mlgo-gym explain &lt;b&gt;" in text
    assert re.search(r"measured <b class=\"less\">\N{MINUS SIGN}\d+</b> bytes", text)


def test_a_layout_has_callers_left_of_callees_and_nodes_never_overlap() -> None:
    layout = layered_layout(4, [(0, 1), (1, 2), (0, 2), (2, 3)])
    assert [layer for layer, _ in layout.nodes] == [0, 1, 2, 3]
    assert [layer for layer, _ in layout.edges[2]] == [0, 1, 2], "it passes between the nodes of a layer"
    assert abs(layout.edges[2][1][1] - layout.nodes[1][1]) >= 0.5
    assert layered_layout(0, []).nodes == []
    for seed in range(5):
        chance = random.Random(seed)
        edges = list({(chance.randrange(20), chance.randrange(20)) for _ in range(40)})
        layout = layered_layout(20, [edge for edge in edges if edge[0] != edge[1]])
        for number, (layer, height) in enumerate(layout.nodes):
            for other, elsewhere in layout.nodes[:number]:
                assert layer != other or abs(height - elsewhere) > 0.99
        assert min(height for _, height in layout.nodes) >= 0


def test_symbols_of_cxx_and_rust_are_demangled_and_others_unchanged() -> None:
    for symbol, name in {
        "_ZNSt6vectorIiSaIiEE9push_backERKi": "std::vector<int, std::allocator<int>>::push_back(int const&)",
        "_ZN6semver13BuildMetadata8is_empty17h3dff11b7dd799019E": "semver::BuildMetadata::is_empty",
        "_ZN44_$LT$$RF$T$u20$as$u20$core..fmt..Display$GT$3fmt17hf53f96bdcac9c582E": "<&T as core::fmt::Display>::fmt",
        "_RNvXs_Cs123_4testNtB4_3FooNtB4_5Trait1f": "<test::Foo as test::Trait>::f",
        "_RINvNtC3std3mem8align_ofjdE": "std::mem::align_of::<usize, f64>",
        "_ZNSt3__16vectorIiE4backB8nie22abcEv": "std::vector<int>::back()",
        **{symbol: symbol for symbol in ("main", "_start", "_Znonsense", "")},
    }.items():
        assert readable(symbol) == name


def test_a_long_name_loses_its_scopes_first() -> None:
    for name, short in {
        "main": "main",
        "std::vector<int, std::allocator<int> >::push_back(int const&)": "std::vector::push_back",
        "void f<int>(int)": "f",
        "(anonymous namespace)::g(int) const": "{anonymous}::g",
        "bool operator< <int>(A<int> const&, A<int> const&)": "bool operator<",
        "S::operator()(int) const": "S::operator()",
        "<test::Foo<T> as test::Trait>::f": "test::Foo::f",
        "<fn(u8) -> Vec<u8> as test::Trait>::f": "Vec::f",
        "a::<impl core::fmt::Display for a::B>::fmt": "a::fmt",
        "std::mem::align_of::<usize, f64>": "std::mem::align_of",
        "a::long_name_space::another_one::f()": "another_one::f",
        "a_name_that_is_longer_than_the_room": "a_name_that_is_longer_t…",
    }.items():
        assert shortened(name, 24) == short
    assert short_context("f, g, h", 24) == "f +2"
    assert short_context("..., f, g", 24) == "f +1+"
    assert readable_context("..., f, g") == "f and 1+ more that call each other"


def test_a_rule_depends_on_its_feature_alone(varied: str) -> None:
    study, episodes = Importance(varied, "threshold:20"), []
    found = study.run(note=lambda: episodes.append(1))
    first, *others = found.features
    assert first.name == "cost_estimate"
    assert first.changed > 0.1
    assert first.cost
    assert first.cost_interval is not None
    assert {(feature.changed, feature.cost) for feature in others} == {(0.0, None)}
    assert len(episodes) == 2 * found.modules + 1 <= study.steps(study.make())  # one module has no decisions
    found = Importance(varied, "default").run()
    (changed,) = (feature for feature in found.features if feature.changed)
    assert changed.name == "inlining_default"
    assert changed.cost is not None
    assert changed.cost > 0
    with pytest.raises(MlgoError, match="in two ways"):
        Importance(varied, "random").run()


def test_a_network_of_one_callee_feature_depends_on_it_alone(varied: str, tmp_path: Path) -> None:
    # It inlines the last call of a function.
    network = Network(("callee_last",), (np.ones((1, 1), np.float32),), (np.array([-0.5], np.float32),))
    network.save(tmp_path / "last.safetensors")
    found = Importance(varied, f"mlp:{tmp_path}/last.safetensors").run()
    first, *others = found.features
    assert (first.name, first.meaning) == ("callee_last", CALLEE_FEATURES["callee_last"])
    assert first.changed > 0.1
    assert first.cost
    assert {feature.changed for feature in others} == {0.0}
    assert found.failed == {}


def test_the_columns_of_a_tensor_are_one_feature_and_masked_actions_stay_masked(varied: str) -> None:
    groups = feature_groups(RegAllocEvictEnv().feature_names)
    assert "mask" not in groups
    assert len(groups["is_hint"]) == 33
    arguments: dict[str, Any] = {"environment": "mlgo/RegAllocEvict-v0", "arguments": {"max_decisions": 20}}
    found = Importance(varied, "first_legal", **arguments, cost_features=0).run()
    assert {feature.changed for feature in found.features} == {0.0}


@pytest.mark.libraries
def test_shapley_values_of_a_rule_are_those_of_its_feature_and_of_a_network_those_of_its_logit() -> None:
    pytest.importorskip("shap")

    def shares(policy: str) -> dict[str, float]:
        found = Importance("builtin", policy, cost_features=0, shap=20, limit=2, largest=25_000).run()
        return {feature.name: feature.shap or 0.0 for feature in found.features}

    rule, network = shares("threshold:20"), shares("inline-oz")
    assert rule.pop("cost_estimate") > 0.05
    assert sum(rule.values()) == pytest.approx(0, abs=1e-6)
    assert network["callee_last"] > 0
    assert network["cost_estimate"] > 0
