"""Evolution strategies on a network's weights, against the real size of whole modules.

All samples of a generation play the same modules, which are drawn anew for each. What is kept on disk is what the
samples gave: an optimiser that is asked and told the same again comes to the same weights.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from mlgo_gym.env import CompilerEnv
from mlgo_gym.errors import MlgoError
from mlgo_gym.evaluation.environment import make_environment
from mlgo_gym.evaluation.environment_work import EnvironmentWork
from mlgo_gym.policies.calls import network_policy, sees_calls
from mlgo_gym.policies.network import Network
from mlgo_gym.scheduling import Backlog, Lost, Shelf
from mlgo_gym.storage.cache import key_of, write_atomically
from mlgo_gym.storage.tensors import format_tensors, read_tensors
from mlgo_gym.training.curves import silent
from mlgo_gym.training.optimisers import Floats, make_optimiser

FAILED = 0.0
"""The reduction of an episode that failed: nobody is to gain from that, and nobody to lose."""


@dataclass(frozen=True, slots=True)
class Evolution:
    """How weights evolve.

    Attributes:
        environment: the environment's id.
        arguments: its arguments with the corpus, JSON-able; rewards are logarithms of sizes.
        generations: how many steps.
        directions: in each generation so many random directions are tried, forth and back; twice as many samples.
        best: so many of them count, by the better of their two sides; with `adam`.
        modules: so many modules are compiled for each side.
        deviation: how far a sample is from the weights, in parts of the weights' own standard deviation.
        step: the size of Adam's step; with `adam`.
        largest: modules with more bytes of bitcode are left out.
        seed: the source of chance.
        optimiser: `adam` or `cma`, as `mlgo_gym.training.optimisers` has them.
    """

    environment: str
    arguments: dict[str, Any]
    generations: int = 100
    directions: int = 8
    best: int = 4
    modules: int = 8
    deviation: float = 0.05
    step: float = 0.003
    largest: int | None = 60_000
    seed: int = 0
    optimiser: str = "adam"

    def __post_init__(self) -> None:
        if not 1 <= self.best <= self.directions or min(self.generations, self.modules) < 1 or self.deviation <= 0:
            raise MlgoError(f"a generation or more, modules, and 1 to {self.directions} best directions were wanted")

    def run(
        self,
        start: Network,
        output: Path,
        jobs: int | None = None,
        note: Callable[[int, float], None] = silent,
        *,
        ray: str | None = None,
    ) -> Network:
        """Return the network whose weights have evolved, and keep it in a file.

        Args:
            start: where it begins; its normalization and shape stay. It may see calls.
            output: the file of the network. `OUTPUT.checkpoint` beside it holds all that the next generation depends
                on: the same call goes on from there, to the same result.
            jobs: how many processes; 1 by default, and with `ray` one for each processor of the cluster.
            note: called with each generation's number and the mean relative reduction of its samples.
            ray: the address of a Ray cluster, as `mlgo_gym.scheduling.RayCluster` takes it, that does the compiles.

        Raises:
            MissingExtraError: the optimiser's library is not installed, or Ray.
            MlgoError: the checkpoint is of another evolution, no module is left, or there is no cluster.
        """
        arguments = self._arguments(start)
        env = make_environment(self.environment, arguments)
        names = [name for name in env.corpus.names if self.largest is None or env.corpus.size(name) <= self.largest]
        names = [name for name in names if env.decisions(env.corpus.module(name))]
        if not names:
            raise MlgoError("no module with a decision is small enough; allow larger ones, or choose another corpus")
        optimiser = make_optimiser(
            self.optimiser,
            flatten(start),
            directions=self.directions,
            best=self.best,
            deviation=self.deviation,
            step=self.step,
            seed=self.seed,
        )
        identity = key_of(asdict(self), flatten(start).tobytes().hex(), env.toolchain.identity)
        checkpoint = output.with_name(f"{output.name}.checkpoint")
        scores = _restore(checkpoint, identity)
        work = EnvironmentWork(self.environment, arguments, partial(_player, start), needs=_module)
        with work.workers(env, jobs, ray=ray) as running:
            for generation in range(self.generations):
                # A generator for each generation: nothing of it need be kept between them.
                chance = np.random.default_rng([self.seed, generation])
                samples = optimiser.ask(chance)
                if generation < len(scores):
                    optimiser.tell(scores[generation])
                    continue
                drawn = [str(name) for name in chance.choice(names, min(self.modules, len(names)), replace=False)]
                tasks = [_Episode(sample.tobytes(), name) for sample in samples for name in drawn]
                found = {task: _reward(task, result) for task, result in running.run(Backlog(tasks))}
                means = np.array([found[task] for task in tasks]).reshape(len(samples), -1).mean(axis=1)
                scores.append(means)
                _save(checkpoint, identity, scores)
                optimiser.tell(means)
                note(generation, -math.expm1(-float(means.mean())))
        network = unflatten(start, optimiser.weights)
        network.save(output)
        return network

    def _arguments(self, start: Network) -> dict[str, Any]:
        return {**self.arguments, "reward": "log", **({"calls": True} if sees_calls(start) else {})}


def flatten(network: Network) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Return all weights and biases of a network in a row, float64."""
    return np.concatenate([part.ravel() for part in (*network.weights, *network.biases)]).astype(np.float64)


def unflatten(network: Network, values: np.ndarray[Any, Any]) -> Network:
    """Return a network of the same shape with other weights and biases, in the order of `flatten()`."""
    parts = []
    place = 0
    for part in (*network.weights, *network.biases):
        parts.append(np.ascontiguousarray(values[place : place + part.size].reshape(part.shape), np.float32))
        place += part.size
    count = len(network.weights)
    return Network(
        network.features, tuple(parts[:count]), tuple(parts[count:]), network.activation, network.normalization
    )


def _save(path: Path, identity: str, scores: list[Floats]) -> None:
    write_atomically(path, format_tensors({"scores": np.array(scores)}, {"identity": identity}))


def _restore(path: Path, identity: str) -> list[Floats]:
    """Return what the samples of each finished generation gave, as far as there is a checkpoint."""
    if not path.exists():
        return []
    tensors, metadata = read_tensors(path)
    if metadata.get("identity") != identity or "scores" not in tensors:
        raise MlgoError(f"{path} is of an evolution with other settings; choose another output, or remove it")
    return list(tensors["scores"].astype(np.float64))


class _Episode(NamedTuple):
    """A sample's weights, float64, and the module that it is to decide about."""

    weights: bytes
    module: str


def _module(episode: _Episode) -> str:
    return episode.module


def _player(start: Network, env: CompilerEnv, shelf: Shelf | None) -> Callable[[_Episode], float]:
    del shelf
    return partial(_play, env, start)


def _play(env: CompilerEnv, start: Network, episode: _Episode) -> float:
    """Return the logarithm of clang's size over that of a sample, for one module."""
    policy = network_policy(env, unflatten(start, np.frombuffer(episode.weights, np.float64)))
    observation, info = env.reset(options={"module": episode.module})
    over = False
    while not over:
        observation, reward, terminated, truncated, info = env.step(policy.act(observation, info))
        over = terminated or truncated
    return FAILED if truncated else float(reward)


def _reward(episode: _Episode, result: float | Lost) -> float:
    if isinstance(result, Lost):
        raise MlgoError(f"the worker that played {episode.module!r} died: {result.how}; look at what it wrote")
    return result
