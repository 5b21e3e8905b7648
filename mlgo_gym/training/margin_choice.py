"""Which margin a network should have: measured on the modules that are kept for choosing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from mlgo_gym.corpus.corpus import Corpus
from mlgo_gym.errors import MlgoError
from mlgo_gym.evaluation.evaluation import Evaluation
from mlgo_gym.policies.network import Network
from mlgo_gym.training.margin import Base, with_margin

MARGINS = (0.0, 0.3, 0.5, 0.7, 1.0)
"""The margins that are tried unless others are given."""

VALIDATION_MODULES = 120
"""So many modules of the validation split are compiled with each margin, at most."""

WITHIN = 0.0005
"""A larger margin is taken where it is worse by no more than this: who deviates less often is less often wrong."""

WORSE = 0.08
"""A margin with which so many of the modules or more are larger is taken only where every margin is so."""


@dataclass(frozen=True, slots=True)
class MarginResult:
    """What a network with a margin did on the validation modules.

    Attributes:
        margin: the margin.
        mean: the geometric-mean change against plain clang.
        total: the change of the sum.
        worse: on how many modules it was larger.
        modules: of how many.
    """

    margin: float
    mean: float
    total: float
    worse: int
    modules: int


def choose_margin(
    network: Network,
    margins: Sequence[float],
    base: Base,
    corpus: Corpus,
    folder: Path,
    *,
    environment: str = "mlgo/Inline-v0",
    arguments: dict[str, Any] | None = None,
    jobs: int | None = None,
    ray: str | None = None,
    note: Callable[[int, int], None],
) -> tuple[float, list[dict[str, Any]]]:
    """Return the best margin of those with which few modules are larger than clang's, and what each gave.

    Args:
        network: without a margin.
        margins: those to try.
        base: what the margin is about.
        corpus: the modules to choose by.
        folder: for the networks and the results; modules that are finished there are not compiled again.
        environment: the environment's id.
        arguments: its arguments, but for the corpus.
        jobs: how many processes; 1 by default, and with `ray` one for each processor of the cluster.
        ray: the address of a Ray cluster, as `mlgo_gym.scheduling.RayCluster` takes it, that does the compiles.
        note: called with how many episodes are finished, and how many there are.

    Raises:
        MlgoError: nothing is decided in the modules, or there is no margin to try.
    """
    if not margins or not len(corpus):
        raise MlgoError("a margin is chosen by modules of the validation split, and there is none; give --margin")
    policies = {}
    folder.mkdir(parents=True, exist_ok=True)
    for margin in margins:
        file = folder / f"margin-{margin:g}.safetensors"
        with_margin(network, margin, base).save(file)
        policies[f"{margin:g}"] = f"mlp:{file}"
    with Evaluation(
        environment, policies=policies, corpus=corpus, output=folder / "results", env_kwargs=arguments
    ) as evaluation:
        total = len(corpus) * len(margins)
        with closing(evaluation.run(jobs, ray=ray)) as episodes:
            for _ in episodes:
                note(total - evaluation.remaining, total)
        result = evaluation.result
    found = []
    for margin in margins:
        (summary,) = (each for each in result.summaries() if each.policy == f"{margin:g}")
        change = summary.changes[result.measures[0]]
        found.append(MarginResult(margin, result.change(f"{margin:g}"), change.total, change.worse, summary.modules))
    return best_margin(found), [asdict(each) for each in found]


def best_margin(found: Sequence[MarginResult]) -> float:
    """Return the margin to take: the best mean of those with which few modules are larger than clang's."""
    fewest = min(each.worse for each in found)
    safe = [each for each in found if each.worse < WORSE * each.modules or each.worse == fewest]
    least = min(each.mean for each in safe)
    return max(each.margin for each in safe if each.mean <= least + WITHIN)
