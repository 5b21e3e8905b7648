"""Choices of a network by validation modules: the best checkpoint of a training, and the best margin of a network."""

import math
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from mlgo_gym.cache import write_atomically
from mlgo_gym.corpus.corpus import Corpus
from mlgo_gym.errors import PolicyError
from mlgo_gym.evaluation import evaluate
from mlgo_gym.policies.loading import is_rule, policy_file
from mlgo_gym.scheduling import Execution

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
        execution: Execution = Execution(),
        env_kwargs: Mapping[str, Any] | None = None,
    ) -> None:
        self._evaluate = partial(evaluate, environment, corpus=corpus, execution=execution, env_kwargs=env_kwargs)
        self._file = Path(file)
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
        if change < self.change - MIN_IMPROVEMENT or not self.policy:
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


def best_margin(results: Sequence[MarginResult]) -> float:
    """Return the margin with the best mean change among those with few larger modules."""
    fewest = min(result.worse for result in results)
    safe = [result for result in results if result.worse < MAX_LARGER * result.modules or result.worse == fewest]
    best = min(result.mean for result in safe)
    return max(result.margin for result in safe if result.mean <= best + MARGIN_TOLERANCE)
