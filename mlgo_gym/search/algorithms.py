"""The searches by name, and one search of one module from its start to its verified result."""

from __future__ import annotations

from collections.abc import Callable

from mlgo_gym.corpus.module import Module
from mlgo_gym.env import CompilerEnv
from mlgo_gym.errors import MlgoError
from mlgo_gym.policies.loading import load_policy
from mlgo_gym.search.beam import beam
from mlgo_gym.search.budget import Budget
from mlgo_gym.search.bundles import bundles
from mlgo_gym.search.greedy import greedy
from mlgo_gym.search.hill_climb import hill_climb
from mlgo_gym.search.mcts import mcts
from mlgo_gym.search.random_search import random_search
from mlgo_gym.search.rules import load_portfolio
from mlgo_gym.search.search_result import SearchResult
from mlgo_gym.search.search_space import Leaf, SearchSpace

Algorithm = Callable[[SearchSpace, int], Leaf]

ALGORITHMS: dict[str, Algorithm] = {
    "greedy": greedy,
    "random": random_search,
    "hill_climb": hill_climb,
    "beam": beam,
    "mcts": mcts,
    "bundles": bundles,
}
"""The searches by the names that the command line takes."""


FROM_ANY_START = ("bundles",)
"""The searches that can begin with the decisions of any policy."""


WITH_PORTFOLIO = ("bundles",)
"""The searches that try the decisions of several policies beside those of their start."""


def search_module(
    env: CompilerEnv,
    module: Module,
    algorithm: str,
    *,
    compiles: int | None = None,
    seconds: float | None = None,
    seed: int = 0,
    function: str | None = None,
    start: str = "default",
) -> SearchResult:
    """Search one module, or a function of it, for the decisions that cost least, and verify them by replay.

    The replay is in a fresh clang, except with warm resets, where it may be in a copy of one that waits at the first
    decision.

    Args:
        env: the environment whose compiler, flags and metric are used; it is not stepped.
        module: the module.
        algorithm: a name among `ALGORITHMS`.
        compiles: the most compiles; None is no limit.
        seconds: the most time; None is no limit.
        seed: seeds the random generator.
        function: with the scope of a function, which one.
        start: the policy whose decisions the search begins with; only the searches of `FROM_ANY_START` take one.

    Raises:
        MlgoError: an unknown search, a start that it cannot begin with, or an environment whose actions cannot be tried
            one by one.
        CorpusError: the module has no decision.
        CompilerError: a compile failed.
    """
    if algorithm not in ALGORITHMS:
        raise MlgoError(f"the search must be one of {', '.join(ALGORITHMS)}; found {algorithm!r}")
    if start != "default" and algorithm not in FROM_ANY_START:
        raise MlgoError(
            f"a search that begins with any policy must be one of {', '.join(FROM_ANY_START)}; found {algorithm!r}"
        )
    policy = None if start == "default" else load_policy(start, env, seed=seed)
    budget = Budget(compiles, seconds)
    portfolio = load_portfolio(env, seed) if algorithm in WITH_PORTFOLIO else None
    space = SearchSpace(env, module, budget, function, policy, portfolio)
    best = ALGORITHMS[algorithm](space, seed)
    spent, elapsed, improvements = budget.spent, budget.seconds, tuple(space.improvements)
    replayed = space.replay(best.actions)
    return SearchResult(
        module=module.name,
        algorithm=algorithm,
        actions=best.actions,
        cost=best.cost,
        baseline=best.baseline,
        compiles=spent,
        seconds=elapsed,
        verified=replayed.cost == best.cost,
        improvements=improvements,
        failed=space.failed,
    )
