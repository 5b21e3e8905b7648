"""Why two policies make different code of a module."""

import json
from collections.abc import Iterator

import pytest

from mlgo_gym.envs import InlineEnv, RegAllocEvictEnv
from mlgo_gym.errors import MlgoError
from mlgo_gym.evaluation.explanation import Explanation, explain_module
from mlgo_gym.evaluation.explanation.names import readable
from mlgo_gym.evaluation.explanation.report import as_page, as_text
from tests.conftest import MakeBitcode
from tests.evaluation.runs import Page
from tests.fakes.drive import run

MODULE = "c/markdown"


def test_names_are_readable_without_abi_tags_and_inline_namespaces() -> None:
    for symbol, name in (
        ("main", "main"),
        ("_Z1fB5cxx11v", "f()"),
        ("_ZNSt3__16vectorIiE4growEv", "std::vector<int>::grow()"),
        ("_RNvC6shapes4area", "shapes::area"),
        ("_Z-", "_Z-"),
    ):
        assert readable(symbol) == name


@pytest.fixture(scope="module")
def env() -> Iterator[InlineEnv]:
    with InlineEnv(corpus="builtin@Os", callee_features=True) as env:
        yield env


@pytest.fixture(scope="module")
def found(env: InlineEnv) -> Explanation:
    return explain_module(env, MODULE, ("default", "last-call"), measured=4)


def test_sizes_functions_credit_and_measured_bytes_are_those_of_compiles(env: InlineEnv, found: Explanation) -> None:
    info = run(env, module=MODULE)[1].info
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
        usual = {"threshold", "callee_users", "last_call_to_static_bonus", "callee_basic_block_count"}
        assert usual < {feature.name for feature in shown.features}
    text = as_text(found)
    assert "\n  2. " in text
    assert "\n     ! threshold:20 would answer differently if cost_estimate" in text


def test_random_and_equal_policies_are_recognised_and_other_tasks_refused(varied: str) -> None:
    with InlineEnv(corpus=varied) as env:
        found = explain_module(env, "mixed", ("default", "random"), measured=4)
        assert any("random" in shown.random_policies for shown in found.measured)
        found = explain_module(env, "mixed", ("never", "threshold:-100000"))
    assert (found.differences, found.functions, found.change) == ([], [], 0)
    with pytest.raises(MlgoError, match=r"use mlgo/Inline-v0"):
        explain_module(RegAllocEvictEnv(corpus=varied), "mixed", ("default", "random"))


def test_an_explanation_is_text_json_and_a_page(found: Explanation) -> None:
    assert "default inlines, last-call keeps the call" in as_text(found)
    data = json.loads(json.dumps(found.to_json()))
    assert data["text"]["second"] - data["text"]["first"] == found.change
    assert data["differences"][0]["caller"][0] == "put_line"
    text = as_page(found, "mlgo-gym explain <b>")
    page = Page(text)
    assert (page.open, page.links, "script" in page.tags, "url(" in text) == ([], [], False, False)
    assert "mlgo-gym explain &lt;b&gt;" in text
