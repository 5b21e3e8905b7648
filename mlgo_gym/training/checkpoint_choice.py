"""Choices of a network by validation modules: the best checkpoint of a training, and the best margin of a network."""

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from mlgo_gym.cache import write_atomically
from mlgo_gym.corpus.corpus import Corpus
from mlgo_gym.errors import MlgoError, PolicyError
from mlgo_gym.evaluation import evaluate
from mlgo_gym.policies.loading import is_rule, policy_file
from mlgo_gym.policies.network import Network
from mlgo_gym.scheduling import Execution
from mlgo_gym.training.labels import Labels
from mlgo_gym.training.margin import with_margin
from mlgo_gym.training.monitor import Monitor
from mlgo_gym.training.tree_imitation import TreeImitation

MIN_IMPROVEMENT = 0.001
"""Relative improvement below which a later checkpoint does not replace an earlier one."""

MARGINS: tuple[float, ...] = (0.0, 0.3, 0.5, 0.7, 1.0)
"""The margins to choose from."""

VALIDATION_MODULES = 120
"""Maximum number of validation modules to choose a margin by."""

MARGIN_TOLERANCE = 0.0005
"""A larger margin is preferred if its mean change is worse by no more than this."""

MAX_LARGER = 0.08
"""Share of modules that may become larger than clang's; a margin beyond it is taken only if every margin is."""


class BestCheckpoint:
    """Keeps the best checkpoint of a policy on validation modules.

    The last checkpoint of a training is often not the best one. Offer the start and a checkpoint from time to time;
    the kept one is no worse than the start on these modules.

    ```python
    best = BestCheckpoint("mlgo/Inline-v0", corpus.split("valid"), "policy.safetensors")
    best.offer("mlp:start.safetensors")
    best.offer("mlp:after-10000-steps.safetensors")
    print(best.policy, best.change)
    ```

    Args:
        environment: Id of the environment.
        corpus: Validation modules, which are neither trained on nor reported.
        file: File for the best checkpoint.
        min_improvement: Relative change by which a later checkpoint must be better.
        execution: Where the modules are compiled. Default: this process.
        env_kwargs: Other arguments of the environment, as in `evaluate()`.

    Attributes:
        policy: The kept checkpoint, as `load_policy` takes it; empty before the first offer.
        change: Its geometric-mean change against plain clang; infinite before the first offer.
    """

    def __init__(
        self,
        environment: str,
        corpus: Corpus,
        file: str | Path,
        *,
        min_improvement: float = MIN_IMPROVEMENT,
        execution: Execution = Execution(),
        env_kwargs: Mapping[str, Any] | None = None,
    ) -> None:
        self._evaluate = partial(evaluate, environment, corpus=corpus, execution=execution, env_kwargs=env_kwargs)
        self._file, self._min_improvement = Path(file), min_improvement
        self.policy, self.change = "", math.inf

    def offer(self, policy: str) -> float:
        """Evaluate a checkpoint, keep it if it is better, and return its geometric-mean change against plain clang.

        A checkpoint that fails on a module is not kept, and its change is infinite.

        Args:
            policy: A model in a file, such as `mlp:FILE`, or a bundled policy; the file is copied.

        Raises:
            MlgoError: the policy has no file or does not fit the environment, or the modules have no decision.
        """
        file = policy_file(policy)
        if file.is_dir():
            raise PolicyError(f"expected a model in one file, got the folder {policy!r}; offer mlp:FILE or onnx:FILE")
        result = self._evaluate(policies={"checkpoint": policy})
        if result.failures:
            return math.inf
        change = result.change("checkpoint")
        if change < self.change - self._min_improvement or not self.policy:
            write_atomically(self._file, file.read_bytes())
            kind = "rule" if is_rule(policy) else policy.partition(":")[0]
            self.policy, self.change = f"{kind}:{self._file}", change
        return change


class MarginResult(NamedTuple):
    """Geometric-mean change with a margin on the validation modules, change of the sum, and modules that are larger."""

    margin: float
    mean: float
    total: float
    worse: int
    modules: int


@dataclass(frozen=True, slots=True)
class MarginChoice:
    """Chooses the last network with a margin: the given one, or the best of several on validation modules.

    Several margins are compared on the modules of `corpus`, with a network that is fitted without their labels. The
    `folder` keeps its networks and results; finished modules are not compiled again.
    """

    fit: TreeImitation
    margins: Sequence[float] = (0.0,)
    corpus: Corpus | None = None
    folder: Path | None = None
    environment: str = "mlgo/Inline-v0"
    arguments: Mapping[str, Any] = field(default_factory=dict)
    execution: Execution = Execution()

    def choose(self, network: Network, rounds: Sequence[Labels], monitor: Monitor) -> Network:
        """Return the network with the margin.

        Raises `MlgoError` if no validation module has a decision, or all labels are of validation modules.
        """
        margin, tried = self.margins[0], list[MarginResult]()
        if len(self.margins) > 1:
            apart = self.fit.fit(rounds, monitor, frozenset(module.source_digest() for module in self.corpus or ()))
            tried = self._evaluate(apart, monitor)
            margin = best_margin(tried)
        monitor.record("margin", margin=margin, tried=[result._asdict() for result in tried])
        return with_margin(network, margin, self.fit.base)

    def _evaluate(self, network: Network, monitor: Monitor) -> list[MarginResult]:
        if not self.corpus or self.folder is None:
            raise MlgoError("expected validation modules to choose a margin by, got none; use --margin")
        policies = {}
        self.folder.mkdir(parents=True, exist_ok=True)
        for margin in self.margins:
            file = self.folder / f"margin-{margin:g}.safetensors"
            with_margin(network, margin, self.fit.base).save(file)
            policies[f"{margin:g}"] = f"mlp:{file}"
        done = itertools.count(1)
        with monitor.stage("margins", len(self.corpus) * len(policies)) as advance:
            result = evaluate(
                self.environment,
                policies=policies,
                corpus=self.corpus,
                execution=self.execution,
                output=self.folder / "results",
                env_kwargs=dict(self.arguments),
                progress=lambda _: advance(next(done)),
            )
        results = []
        for summary in result.summaries():
            change = summary.changes[result.metrics[0]]
            mean = math.inf if summary.failures else result.change(summary.policy)
            results.append(MarginResult(float(summary.policy), mean, change.total, change.worse, summary.modules))
        return sorted(results)


def best_margin(results: Sequence[MarginResult]) -> float:
    """Return the margin with the best mean change among those with few larger modules."""
    fewest = min(result.worse for result in results)
    safe = [result for result in results if result.worse < MAX_LARGER * result.modules or result.worse == fewest]
    best = min(result.mean for result in safe)
    return max(result.margin for result in safe if result.mean <= best + MARGIN_TOLERANCE)
