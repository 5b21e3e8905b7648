"""The search algorithms by name, and the search of one module."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from mlgo_gym.corpus.module import Module
from mlgo_gym.env import CompilerEnv
from mlgo_gym.errors import MlgoError
from mlgo_gym.evaluation.search_result import SearchResult
from mlgo_gym.policies import load_policy
from mlgo_gym.search.bundles import bundles
from mlgo_gym.search.functions import functions
from mlgo_gym.search.search_space import Budget, Leaf, SearchSpace
from mlgo_gym.search.tree_search import beam, greedy, hill_climb, mcts, random_search

ALGORITHMS: dict[str, Callable[[SearchSpace, int], Leaf]] = {
    "greedy": greedy,
    "random": random_search,
    "hill_climb": hill_climb,
    "beam": beam,
    "mcts": mcts,
    "bundles": bundles,
    "functions": functions,
}
"""The algorithms by name; each takes the space and a seed, and returns the best leaf within the budget."""

WITH_POLICIES = ("bundles", "functions")
"""Algorithms that start from the decisions of a policy, and combine those of a portfolio."""


def check_algorithm(algorithm: str, start: str) -> None:
    """Raise an error if an algorithm is unknown, or cannot start from a policy."""
    if algorithm not in ALGORITHMS:
        raise MlgoError(f"expected one of {', '.join(ALGORITHMS)}, got {algorithm!r}; choose another algorithm")
    if start != "default" and algorithm not in WITH_POLICIES:
        raise MlgoError(
            f"expected an algorithm that starts from a policy, got {algorithm!r}; use {', '.join(WITH_POLICIES)}"
        )


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
    known: Mapping[str, Sequence[int]] | None = None,
) -> SearchResult:
    """Search the actions of a module, or of one function, with the least cost, and verify them by a replay.

    The replay is a new compile; with `fork_resets` it may be a fork of a compile at its first decision.

    Args:
        env: The environment; it gives compiler, flags and metric, and is not stepped.
        module: The module.
        algorithm: A name in `ALGORITHMS`.
        compiles, seconds: Limits of the budget; None is unlimited.
        seed: Seed of the random generator.
        function: The function, with `scope="function"`.
        start: The policy to start from; only for the algorithms in `WITH_POLICIES`.
        known: Columns of earlier recipes of evictions (`mlgo_gym.search.recipes.known_evictions`).

    Raises:
        MlgoError: The algorithm is unknown or cannot start from the policy, or the action space is not discrete.
        CorpusError: The module has no decision.
        CompilerError: A compile failed.
    """
    check_algorithm(algorithm, start)
    policy = None if start == "default" else load_policy(start, env, seed=seed)
    budget = Budget(compiles, seconds)
    space = SearchSpace(env, module, budget, function, policy, known, seed)
    best = ALGORITHMS[algorithm](space, seed)
    spent, elapsed, improvements = budget.spent, budget.seconds, tuple(space.improvements)
    return SearchResult(
        module=module.name,
        algorithm=algorithm,
        actions=best.actions,
        cost=best.cost,
        baseline=best.baseline,
        compiles=spent,
        seconds=elapsed,
        verified=space.replay(best.actions).cost == best.cost,
        improvements=improvements,
        failed=space.failed,
    )
