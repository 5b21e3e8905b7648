"""Why two policies make different code of a module."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from xml.etree import ElementTree

import pytest

from mlgo_gym.envs import InlineEnv, RegAllocEvictEnv
from mlgo_gym.errors import MlgoError
from mlgo_gym.explanation import Explanation, explain_module
from mlgo_gym.explanation.call_graph import FIRST_INLINES, SECOND_INLINES, call_graph
from mlgo_gym.explanation.graph_picture import picture
from mlgo_gym.explanation.page import as_page
from mlgo_gym.explanation.text import WIDTH, as_text
from mlgo_gym.session.protocol.callee_features import CALLEE_FEATURES
from mlgo_gym.session.protocol.decision import functions_of

MODULE = "c/markdown"


@pytest.fixture(scope="module")
def env() -> Iterator[InlineEnv]:
    env = InlineEnv(corpus="builtin@Os")
    yield env
    env.close()


@pytest.fixture(scope="module")
def found(env: InlineEnv) -> Explanation:
    return explain_module(env, MODULE, ("default", "inline-os-fast"), measured=4)


def test_sizes_are_those_of_three_compiles(env: InlineEnv, found: Explanation) -> None:
    _, info = env.reset(options={"module": MODULE})
    over = False
    while not over:
        _, _, over, _, info = env.step(info["default_action"])
    assert found.baseline == info["baseline_text"]
    assert found.first.text == info["text"]
    assert found.second.text < found.first.text


def test_functions_and_credit_add_up_to_the_difference(found: Explanation) -> None:
    assert sum(each.change for each in found.functions) == found.change - (
        found.second.functions.unnamed - found.first.functions.unnamed
    )
    assert sum(each.credited for each in found.differences) == pytest.approx(found.change)


def test_measured_bytes_are_those_of_the_counterfactual(env: InlineEnv, found: Explanation) -> None:
    each = found.measured[0]
    env.reset(options={"module": MODULE})
    for answer in found.second.answers:
        env.step(answer)
    (undone,) = env.counterfactual(each.decision_index)
    assert each.measured == undone.cost - undone.alternative_cost
    assert each.first == 1 - each.decision.answer


def test_a_decisive_feature_changes_the_answer_at_the_median(env: InlineEnv) -> None:
    found = explain_module(env, MODULE, ("never", "threshold:20"), measured=2)
    assert found.measured
    for shown in found.measured:
        assert [feature.name for feature in shown.features if feature.decisive_for] == ["cost_estimate"]
        assert shown.features[0].value < 20 <= shown.features[0].median
        assert shown.features[0].decisive_for == ("threshold:20",)


def test_callee_features_are_explained() -> None:
    with InlineEnv(callee_features=True) as env:
        found = explain_module(env, "c/scheduler", ("never", "inline-oz"), measured=3)
    assert found.measured
    for each in found.measured:
        features = {feature.name: feature for feature in each.features}
        assert any("inline-oz" in feature.logit_changes for feature in features.values())
        assert all(feature.meaning for name, feature in features.items() if name in CALLEE_FEATURES)
    names = {feature.name for each in found.measured for feature in each.features}
    assert names & set(CALLEE_FEATURES)


def test_a_random_policy_is_recognised(env: InlineEnv) -> None:
    found = explain_module(env, "c/raster", ("default", "random"), measured=8)
    assert any("random" in shown.random_policies for shown in found.measured)


def test_policies_with_equal_answers_have_nothing_to_explain(env: InlineEnv) -> None:
    found = explain_module(env, "c/raster", ("never", "threshold:-100000"))
    assert (found.differences, found.functions, found.change) == ([], [], 0)
    assert "the same answers" in as_text(found)
    assert "nothing to explain" in as_page(found, "")


def test_other_tasks_are_refused() -> None:
    with pytest.raises(MlgoError, match=r"use mlgo/Inline-v0"):
        explain_module(RegAllocEvictEnv(), "c/raster", ("default", "random"))


def test_the_text_fits_a_terminal(found: Explanation) -> None:
    lines = as_text(found).splitlines()
    assert max(map(len, lines)) <= WIDTH + 3
    assert any("default inlines, inline-os-fast keeps the call" in line for line in lines)


def test_the_data_are_json(found: Explanation) -> None:
    data = json.loads(json.dumps(found.to_json()))
    assert data["text"]["second"] - data["text"]["first"] == found.change
    assert data["differences"][0]["caller"] == ["put_line"]


def test_the_picture_shows_the_outcomes_of_calls(found: Explanation) -> None:
    graph = call_graph(found)
    assert {edge.outcome for edge in graph.edges} >= {FIRST_INLINES, SECOND_INLINES}
    functions = {name for node in graph.nodes for name in functions_of(node.context)}
    assert len(functions) == sum(len(functions_of(node.context)) for node in graph.nodes)
    drawn = ElementTree.fromstring(picture(graph, found.policies))
    assert drawn.tag.endswith("svg")
    assert len(drawn.findall("{*}g[@class='edge first-inlines']")) >= 1


class _Page(HTMLParser):
    """Collects the resources of a page, and checks that its tags are closed."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.requested: list[str] = []
        self.scripts = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in ("meta", "link", "br", "img"):
            self.open.append(tag)
        self.scripts += tag == "script"
        self.requested += [value or "" for name, value in attrs if name in ("src", "href")]

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Elements of SVG are closed."""

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_the_page_is_self_contained(found: Explanation) -> None:
    page = as_page(found, "mlgo-gym explain <b>")
    parser = _Page()
    parser.feed(page)
    assert (parser.open, parser.requested, parser.scripts) == ([], [], 0)
    assert "url(" not in page
    assert "mlgo-gym explain &lt;b&gt;" in page
    assert "prefers-color-scheme: dark" in page
    assert re.search(r"measured <b class=\"less\">\N{MINUS SIGN}\d+</b> bytes", page)
