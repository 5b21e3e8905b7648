"""Evolution strategies on a network's weights, against the real size of whole modules.

Antithetic samples (Salimans et al. 2017) of which the best directions are kept (Mania, Guy and Recht 2018), the same
modules for all samples of a generation, and Adam of PyTorch for the step.
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
from mlgo_gym.policies.mlp import MlpPolicy
from mlgo_gym.policies.network import Network
from mlgo_gym.scheduling import Backlog, EachAlone, Lost, workers
from mlgo_gym.storage.cache import key_of, write_atomically
from mlgo_gym.storage.tensors import format_tensors, read_tensors
from mlgo_gym.training.curves import silent
from mlgo_gym.training.distillation import torch_library

FAILED = 0.0
"""The reduction of an episode that failed: nobody is to gain from that, and nobody to lose."""


@dataclass(frozen=True, slots=True)
class Evolution:
    """How weights evolve.

    Attributes:
        environment: the environment's id.
        arguments: its arguments with the corpus, JSON-able; rewards are logarithms of sizes.
        generations: how many steps.
        directions: in each generation so many random directions are tried, forth and back.
        best: so many of them count, by the better of their two sides.
        modules: so many modules are compiled for each side.
        deviation: how far a sample is from the weights, in parts of the weights' own standard deviation.
        step: the size of Adam's step.
        largest: modules with more bytes of bitcode are left out.
        seed: the source of chance.
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

    def __post_init__(self) -> None:
        if not 1 <= self.best <= self.directions or min(self.generations, self.modules) < 1 or self.deviation <= 0:
            raise MlgoError(f"a generation or more, modules, and 1 to {self.directions} best directions were wanted")

    def run(
        self,
        start: Network,
        output: Path,
        jobs: int = 1,
        note: Callable[[int, float], None] = silent,
    ) -> Network:
        """Return the network whose weights have evolved, and keep it in a file.

        Args:
            start: where it begins; its normalization and shape stay.
            output: the file of the network. `OUTPUT.checkpoint` beside it holds all that the next generation depends
                on: the same call goes on from there, to the same result.
            jobs: how many processes.
            note: called with each generation's number and the mean relative reduction of its samples.

        Raises:
            MissingExtraError: PyTorch is not installed.
            MlgoError: the checkpoint is of another evolution, or no module is left.
        """
        torch = torch_library()
        env = self._environment()
        names = [name for name in env.corpus.names if self.largest is None or env.corpus.size(name) <= self.largest]
        names = [name for name in names if env.decisions(env.corpus.module(name))]
        if not names:
            raise MlgoError("no module with a decision is small enough; allow larger ones, or choose another corpus")
        weights = torch.tensor(flatten(start), dtype=torch.float64, requires_grad=True)
        optimizer = torch.optim.Adam([weights], self.step)
        identity = key_of(asdict(self), flatten(start).tobytes().hex(), env.toolchain.identity)
        checkpoint = output.with_name(f"{output.name}.checkpoint")
        begun = _restore(checkpoint, identity, weights, optimizer)
        with workers(partial(self.runner, start), jobs) as running:
            for generation in range(begun, self.generations):
                # A generator for each generation: nothing of it need be kept between them.
                chance = np.random.default_rng([self.seed, generation])
                current = weights.detach().numpy()
                radius = self.deviation * float(current.std())
                noise = chance.standard_normal((self.directions, len(current)))
                drawn = [str(name) for name in chance.choice(names, min(self.modules, len(names)), replace=False)]
                samples = [current + sign * radius * direction for direction in noise for sign in (1, -1)]
                tasks = [_Episode(sample.tobytes(), name) for sample in samples for name in drawn]
                found = {task: _reward(task, result) for task, result in running.run(Backlog(tasks))}
                rewards = np.array([found[task] for task in tasks]).reshape(self.directions, 2, -1)
                scores = rewards.mean(axis=2)
                kept = np.argsort(-scores.max(axis=1), kind="stable")[: self.best]
                spread = float(scores[kept].std()) or 1.0
                slope = (scores[kept, 0] - scores[kept, 1]) @ noise[kept] / (self.best * spread)
                optimizer.zero_grad()
                weights.grad = torch.from_numpy(-slope)
                optimizer.step()
                _save(checkpoint, identity, generation + 1, weights, optimizer)
                note(generation, -math.expm1(-float(scores.mean())))
        network = unflatten(start, weights.detach().numpy())
        network.save(output)
        return network

    def runner(self, start: Network, room: int) -> EachAlone[_Episode, float]:
        """Return what plays a sample's episodes, one after the other."""
        del room
        env = self._environment()
        return EachAlone(lambda episode: _play(env, start, episode))

    def _environment(self) -> CompilerEnv:
        return make_environment(self.environment, {**self.arguments, "reward": "log"})


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


def _save(path: Path, identity: str, generation: int, weights: Any, optimizer: Any) -> None:
    state = optimizer.state_dict()["state"][0]
    tensors = {"weights": weights.detach().numpy(), **{name: state[name].numpy() for name in ("exp_avg", "exp_avg_sq")}}
    metadata = {"identity": identity, "generation": str(generation), "step": str(float(state["step"]))}
    write_atomically(path, format_tensors(tensors, metadata))


def _restore(path: Path, identity: str, weights: Any, optimizer: Any) -> int:
    """Take up a checkpoint where there is one; return the number of the next generation."""
    if not path.exists():
        return 0
    torch = torch_library()
    tensors, metadata = read_tensors(path)
    if metadata.get("identity") != identity:
        raise MlgoError(f"{path} is of an evolution with other settings; choose another output, or remove it")
    with torch.no_grad():
        weights.copy_(torch.from_numpy(tensors["weights"]))
    state = optimizer.state_dict()
    state["state"] = {
        0: {
            "step": torch.tensor(float(metadata["step"])),
            **{name: torch.from_numpy(tensors[name]) for name in ("exp_avg", "exp_avg_sq")},
        }
    }
    optimizer.load_state_dict(state)
    return int(metadata["generation"])


class _Episode(NamedTuple):
    """A sample's weights, float64, and the module that it is to decide about."""

    weights: bytes
    module: str


def _play(env: CompilerEnv, start: Network, episode: _Episode) -> float:
    """Return the logarithm of clang's size over that of a sample, for one module."""
    policy = MlpPolicy(env, unflatten(start, np.frombuffer(episode.weights, np.float64)))
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
