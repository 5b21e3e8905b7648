"""Evolution strategies on the weights of a network, against the size of whole modules.

All samples of a generation compile the same modules, which are drawn anew for each generation. The checkpoint keeps the
scores of the samples: an optimiser that receives the same scores reaches the same weights.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from mlgo_gym.cache import key_of, write_atomically
from mlgo_gym.compiler.callee_features import uses_callee_features
from mlgo_gym.corpus.training_digests import sidecar_digests, training_digest, write_sidecar_digests
from mlgo_gym.env import CompilerEnv
from mlgo_gym.episode.options import LOWEST
from mlgo_gym.errors import MlgoError
from mlgo_gym.make_env import EnvironmentWork, make_environment
from mlgo_gym.policies.mlp import MlpPolicy
from mlgo_gym.policies.network import Network
from mlgo_gym.policies.protocol import run_episode
from mlgo_gym.scheduling import Execution, FileStore, WorkerFailure, Workers
from mlgo_gym.storage.tensors import format_tensors, read_tensors
from mlgo_gym.training.monitor import Monitor

Weights = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Evolution:
    """An evolution strategy on the weights of a network.

    Samples are antithetic (Salimans et al. 2017), and the best directions are kept (Mania, Guy and Recht 2018).

    Attributes:
        environment: Id of the environment.
        arguments: Its arguments with the corpus, JSON-able; rewards are logarithms of sizes, and a failed compile has
            the lowest.
        generations: Number of generations (≥ 1).
        directions: Antithetic directions per generation (≥ 1).
        best: Number of best directions used for the update (≥ 1), at most all.
        modules: Modules that each sample compiles (≥ 1).
        deviation: Distance of the samples from the weights, in standard deviations of the weights (> 0).
        step: Learning rate of Adam.
        largest: Maximum size of a module, in bytes of bitcode. Default: 60,000.
        seed: Source of the directions and the modules.
    """

    environment: str
    arguments: Mapping[str, Any]
    generations: int = 100
    directions: int = 8
    best: int = 4
    modules: int = 8
    deviation: float = 0.05
    step: float = 0.003
    largest: int | None = 60_000
    seed: int = 0

    def __post_init__(self) -> None:
        if min(self.generations, self.modules, self.best) < 1 or self.best > self.directions or self.deviation <= 0:
            raise MlgoError(
                "expected generations, modules and best ≥ 1, best ≤ directions and deviation > 0, got "
                f"{self.generations}, {self.modules}, {self.best} of {self.directions} and {self.deviation:g}"
            )

    def run(
        self, start: Path, output: Path, execution: Execution = Execution(), monitor: Monitor | None = None
    ) -> Network:
        """Return the network with the evolved weights, and write it to a file.

        Args:
            start: File of the network to start from; its shape and its normalization stay.
            output: File for the network. `OUTPUT.checkpoint` keeps the scores of all samples: the same call continues
                an interrupted run, to the same result.
            execution: Where the compiles run. Default: this process.
            monitor: Receives the progress, and for each generation the result `evolution` with `reduction`, the mean
                relative reduction of the samples against clang, and `failures`, the number of failed compiles.

        Raises:
            MissingExtraError: Ray is not installed.
            MlgoError: the checkpoint belongs to another run, no module is small enough, or no cluster answers.
        """
        network, monitor = Network.load(start), monitor or Monitor()
        arguments = {**self.arguments, "reward": "log", "error_reward": LOWEST}
        if uses_callee_features(network.features):
            arguments["callee_features"] = True
        env = make_environment(self.environment, arguments)
        names = [name for name in env.corpus.names if self.largest is None or env.corpus.size(name) <= self.largest]
        names = [name for name in names if env.decisions(env.corpus.module(name))]
        if not names:
            raise MlgoError("expected modules with decisions, got none that is small enough; raise largest")
        identity = key_of(asdict(self), flatten(network).tobytes().hex(), env.toolchain.identity)
        checkpoint = output.with_name(f"{output.name}.checkpoint")
        scores, trained_on = _restored(checkpoint, identity), dict(sidecar_digests(start))
        optimiser = AntitheticAdam(flatten(network), self)
        work = EnvironmentWork(self.environment, arguments, partial(_start, network), needs=attrgetter("module"))
        with work.workers(env, execution) as workers:
            for number in range(self.generations):
                # A generator for each generation, so that the checkpoint needs no random state.
                chance = np.random.default_rng([self.seed, number])
                samples = optimiser.ask(chance)
                drawn = [str(name) for name in chance.choice(names, min(self.modules, len(names)), replace=False)]
                trained_on |= {training_digest(env.corpus.module(name)): name for name in drawn}
                if number >= len(scores):
                    with monitor.stage("evolution", self.generations, done=number) as advance:
                        rewards, failures = _compile(workers, samples, drawn)
                        scores.append(rewards)
                        tensors = {"scores": np.array(scores)}
                        write_atomically(checkpoint, format_tensors(tensors, {"identity": identity}))
                        reduction = -math.expm1(-float(rewards.mean()))
                        monitor.record("evolution", generation=number, reduction=reduction, failures=failures)
                        advance(number + 1, reduction=reduction)
                optimiser.tell(scores[number])
        network = unflatten(network, optimiser.weights)
        network.save(output)
        write_sidecar_digests(output, trained_on, ())
        return network


class _Episode(NamedTuple):
    weights: bytes
    module: str


_Score = tuple[float, bool]
"""The reward of an episode, and whether it failed."""


def _compile(
    workers: Workers[_Episode, _Score], samples: Sequence[Weights], names: Sequence[str]
) -> tuple[Weights, int]:
    """Return for each sample the mean logarithm of clang's size over its size, and the number of failures."""
    episodes = [_Episode(sample.tobytes(), name) for sample in samples for name in names]
    scores: dict[_Episode, _Score] = {}
    with closing(workers.run(deque(episodes))) as results:
        for episode, result in results:
            if isinstance(result, WorkerFailure):
                raise MlgoError(f"expected a compile of {episode.module!r}, got a worker that exited: {result.how}")
            scores[episode] = result
    rewards: Weights = np.array([scores[episode][0] for episode in episodes]).reshape(len(samples), -1)
    return rewards.mean(axis=1), sum(failed for _, failed in scores.values())


class AntitheticAdam:
    """Antithetic samples of the weights, and steps of Adam (Kingma and Ba 2015) by the best directions."""

    def __init__(self, start: Weights, evolution: Evolution) -> None:
        self.weights, self._evolution = start, evolution
        self._mean, self._square, self._steps = np.zeros_like(start), np.zeros_like(start), 0
        self._noise: Weights = np.empty(0)

    def ask(self, chance: np.random.Generator) -> list[Weights]:
        """Return two samples of the weights per direction."""
        radius = self._evolution.deviation * float(self.weights.std())
        self._noise = chance.standard_normal((self._evolution.directions, len(self.weights)))
        return [self.weights + sign * radius * direction for direction in self._noise for sign in (1, -1)]

    def tell(self, scores: Weights) -> None:
        """Move the weights by the scores of the samples; larger is better."""
        pairs, best = scores.reshape(-1, 2), self._evolution.best
        rows = np.argsort(-pairs.max(axis=1), kind="stable")[:best]
        spread = float(pairs[rows].std()) or 1.0
        slope = (pairs[rows, 0] - pairs[rows, 1]) @ self._noise[rows] / (best * spread)
        self._steps += 1
        self._mean = 0.9 * self._mean + 0.1 * slope
        self._square = 0.999 * self._square + 0.001 * slope**2
        mean, square = self._mean / (1 - 0.9**self._steps), self._square / (1 - 0.999**self._steps)
        self.weights = self.weights + self._evolution.step * mean / (np.sqrt(square) + 1e-8)


def _restored(checkpoint: Path, identity: str) -> list[Weights]:
    if not checkpoint.exists():
        return []
    tensors, metadata = read_tensors(checkpoint)
    if metadata.get("identity") != identity or "scores" not in tensors:
        raise MlgoError(f"expected a checkpoint of this run, got {checkpoint} of another one; choose another output")
    return list(tensors["scores"].astype(np.float64))


def flatten(network: Network) -> Weights:
    """Return all weights and biases of a network in one array, float64."""
    return np.asarray(np.concatenate([part.ravel() for part in (*network.weights, *network.biases)]), np.float64)


def unflatten(network: Network, values: Weights) -> Network:
    """Return a network of the same shape with other weights and biases, in the order of `flatten()`."""
    old, count = (*network.weights, *network.biases), len(network.weights)
    pieces = np.split(values.astype(np.float32), np.cumsum([part.size for part in old])[:-1])
    parts = tuple(piece.reshape(part.shape) for piece, part in zip(pieces, old, strict=True))
    return replace(network, weights=parts[:count], biases=parts[count:])


# A worker passes a store.
def _start(start: Network, env: CompilerEnv, store: FileStore | None) -> Callable[[_Episode], _Score]:  # noqa: ARG001
    return partial(_run, env, start)


def _run(env: CompilerEnv, start: Network, episode: _Episode) -> _Score:
    """Return the logarithm of clang's size over that of a sample, for one module."""
    policy = MlpPolicy(env, unflatten(start, np.frombuffer(episode.weights, np.float64)))
    reward, failed, _ = run_episode(env, policy.act, options={"module": episode.module})
    return reward, failed
