"""Random legal decisions, and illegal ones, by the thousand: does any compile ever fail?

    python benchmarks/random_decisions.py --corpus zstd --clang bundled --clang clang-19 --decisions 20000

For each environment and compiler, episodes on modules drawn at random are answered at random until there were so many
decisions: legally, and, where actions can be illegal, only illegally (those must be replaced and never reach clang).
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

import mlgo_gym  # noqa: F401 - registers the environments

ENVIRONMENTS = ("mlgo/RegAllocEvict-v0", "mlgo/RegAllocPriority-v0", "mlgo/Joint-v0", "mlgo/Inline-v0")
Choice = Callable[[gym.Space[Any], dict[str, Any], np.random.Generator], Any]


@dataclass(slots=True)
class Trial:
    """What came of one environment's random decisions under one compiler."""

    environment: str
    clang: str
    actions: str
    decisions: int = 0
    replaced: int = 0
    episodes: int = 0
    seconds: float = 0.0
    failures: list[dict[str, Any]] = field(default_factory=list)


def legal(space: gym.Space[Any], info: dict[str, Any], generator: np.random.Generator) -> Any:
    """Return a random legal action."""
    if "action_mask" in info:
        return int(generator.choice(np.flatnonzero(info["action_mask"])))
    return space.sample()


def illegal(space: gym.Space[Any], info: dict[str, Any], generator: np.random.Generator) -> Any:
    """Return a random action that is outside the space or masked."""
    if isinstance(space, gym.spaces.Box):
        return generator.choice(np.array([-1.0, 2.0, 2.0**32, np.nan, np.inf, -np.inf]))
    assert isinstance(space, gym.spaces.Discrete)
    masked = np.flatnonzero(np.asarray(info.get("action_mask", [])) == 0)
    return int(generator.choice([*masked, -1, space.n, 2**40]))


def attempt(environment: str, clang: str, corpus: str, decisions: int, choice: Choice) -> Trial:
    """EpisodeRecord episodes until there were so many decisions."""
    env = gym.make(environment, corpus=corpus, clang=clang, disable_env_checker=True)
    trial = Trial(environment, clang, choice.__name__)
    generator = np.random.default_rng(0)
    env.action_space.seed(0)
    start = time.perf_counter()
    seed: int | None = 0
    while trial.decisions < decisions:
        _, info = env.reset(seed=seed)
        seed = None
        module, over = info["module"], False
        while not over:
            _, _, terminated, truncated, info = env.step(choice(env.action_space, info, generator))
            trial.decisions += 1
            trial.replaced += "illegal_action" in info
            over = terminated or truncated
        trial.episodes += 1
        if truncated:
            trial.failures.append({"module": module, **info["error"]})
    trial.seconds = time.perf_counter() - start
    env.close()
    return trial


def main() -> None:
    """EpisodeRecord, and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", default="zstd")
    parser.add_argument("--clang", action="append")
    parser.add_argument("--environment", action="append")
    parser.add_argument("--decisions", type=int, default=20_000)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    trials = []
    titles = ("decisions", "replaced", "episodes", "failures")
    print(f"{'environment':26} {'clang':10} {'actions':8} {' '.join(f'{title:>9}' for title in titles)}")
    for environment in arguments.environment or ENVIRONMENTS:
        for clang in arguments.clang or ["bundled"]:
            for choice in (legal, illegal):
                trial = attempt(environment, clang, arguments.corpus, arguments.decisions, choice)
                trials.append(trial)
                counts = (trial.decisions, trial.replaced, trial.episodes, len(trial.failures))
                line = f"{environment:26} {clang:10} {trial.actions:8} {' '.join(f'{count:9}' for count in counts)}"
                print(line, flush=True)
                for failure in trial.failures:
                    print(f"    {failure['module']}: {failure['message']}")
    if arguments.json:
        arguments.json.write_text(json.dumps([asdict(trial) for trial in trials], indent=1) + "\n")


if __name__ == "__main__":
    main()
