"""The best of a training's checkpoints, by the modules that are kept for choosing."""

from __future__ import annotations

import math
from pathlib import Path

from mlgo_gym.corpus.corpus import Corpus
from mlgo_gym.evaluation import evaluate
from mlgo_gym.storage.cache import write_atomically

LEAST = 0.001
"""By how much better a checkpoint must be to take the place of an earlier one: less is chance."""


class BestCheckpoint:
    """Keeps that one of a policy's checkpoints which is best on validation modules.

    Learning by trial does not get better with every step, and what it ends with may be worse than what it began with.
    So offer the start, and a checkpoint now and then; what is kept is then no worse than the start on these modules.

    ```python
    best = BestCheckpoint("mlgo/Inline-v0", corpus.split("valid"), "policy.safetensors")
    best.offer("mlp:start.safetensors")
    best.offer("mlp:after-10000-steps.safetensors")
    print(best.policy, best.change)
    ```

    Args:
        environment: the environment's id.
        corpus: the validation modules, which are neither learned from nor reported on.
        file: where the best is kept.
        least: by how much, as a relative change, a later one must be better.
        jobs: how many processes compile.

    Attributes:
        policy: what is kept, as `load_policy` takes it; the empty text before the first offer.
        change: its geometric-mean change against plain clang; infinite before the first offer.
    """

    def __init__(
        self, environment: str, corpus: Corpus, file: str | Path, *, least: float = LEAST, jobs: int = 1
    ) -> None:
        self._environment = environment
        self._corpus = corpus
        self._file = Path(file)
        self._least = least
        self._jobs = jobs
        self.policy = ""
        self.change = math.inf

    def offer(self, policy: str) -> float:
        """Measure a checkpoint, keep it if it is better, and return its geometric-mean change against plain clang.

        One that fails on a module is not kept, and its change is infinite.

        Args:
            policy: a model in a file, such as `mlp:FILE` or `sb3:FILE`; the file is copied.

        Raises:
            MlgoError: there is no such file, it does not fit the environment, or nothing is decided in the modules.
        """
        result = evaluate(self._environment, policies={"checkpoint": policy}, corpus=self._corpus, jobs=self._jobs)
        if result.failures:
            return math.inf
        change = result.change("checkpoint")
        if change < self.change - self._least or not self.policy:
            kind, _, file = policy.partition(":")
            write_atomically(self._file, Path(file).read_bytes())
            self.policy, self.change = f"{kind}:{self._file}", change
        return change
