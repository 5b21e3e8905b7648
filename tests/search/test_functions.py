"""Search of the evictions of all functions at once."""

from __future__ import annotations

import pytest

from mlgo_gym.env import CompilerEnv
from mlgo_gym.errors import CorpusError, MlgoError
from mlgo_gym.make_env import make_environment
from mlgo_gym.search import search_module

pytest.importorskip("capstone")


@pytest.fixture(scope="module", params=["estimated-instructions", "spill_cost"])
def env(request: pytest.FixtureRequest, varied: str) -> CompilerEnv:
    return make_environment("mlgo/RegAllocEvict-v0", {"corpus": varied, "metric": request.param})


def test_a_replay_verifies_the_result_and_its_prediction(env: CompilerEnv) -> None:
    result = search_module(env, env.corpus.module("mixed"), "functions", compiles=20)
    assert result.verified
    assert result.cost < result.baseline
    assert result.compiles == 20
    predicted = result.improvements[-1][1]
    assert result.cost == pytest.approx(predicted)


def test_the_cost_of_the_best_functions_never_grows(env: CompilerEnv) -> None:
    result = search_module(env, env.corpus.module("mixed"), "functions", compiles=12, seed=1)
    costs = [cost for _, cost in result.improvements]
    assert costs == sorted(costs, reverse=True)


def test_each_function_keeps_the_better_of_clang_and_a_policy(env: CompilerEnv) -> None:
    module = env.corpus.module("mixed")
    first = search_module(env, module, "functions", compiles=2)
    for policy in ("never_evict", "first_legal"):
        guarded = search_module(env, module, "functions", compiles=3, start=policy)
        assert guarded.verified
        assert guarded.cost <= first.cost + 1e-9


def test_equal_seeds_find_equal_decisions(env: CompilerEnv) -> None:
    module = env.corpus.module("mixed")
    one, two = (search_module(env, module, "functions", compiles=5, seed=3) for _ in range(2))
    assert one.actions == two.actions


def test_a_module_without_decisions_is_refused(env: CompilerEnv) -> None:
    with pytest.raises(CorpusError, match="expected a decision on eviction"):
        search_module(env, env.corpus.module("leaf"), "functions", compiles=2)


def test_other_decisions_and_other_metrics_are_refused(varied: str) -> None:
    sizes = make_environment("mlgo/RegAllocEvict-v0", {"corpus": varied, "metric": "text"})
    inlining = make_environment("mlgo/Inline-v0", {"corpus": varied})
    for env in (sizes, inlining):
        with pytest.raises(MlgoError, match="expected evictions of whole modules"):
            search_module(env, env.corpus.module("mixed"), "functions", compiles=2)
