"""Whether MaskablePPO ever chooses an illegal register: many decisions of the real register allocator.

    python benchmarks/legal_actions.py --steps 50000 --json legal_actions.json

sb3-contrib's MaskablePPO learns on four environments at once. Every action is looked up in the mask that clang sent
with the decision, before it goes to the environment; that is `strict`, and raises on an illegal one by itself.
"""

from __future__ import annotations

import argparse
import json
import time
from collections import Counter
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
from sb3_contrib import MaskablePPO

import mlgo_gym
from mlgo_gym.adapters.sb3 import VecEnvAdapter
from mlgo_gym.corpus import open_corpus
from mlgo_gym.llvm.toolchain import find_toolchain
from mlgo_gym.wrappers import fit_normalization, vector

ENVIRONMENT = "mlgo/RegAllocEvict-v0"


class LookUpActions(gym.vector.VectorWrapper[Any, Any, Any]):
    """Looks every action up in the mask of its decision.

    Attributes:
        counts: of `actions`, of `illegal` ones, of those `against_clang`, of `choices` that were legal at their
            decisions together, of `episodes`, and of those that `failed`.
    """

    def __init__(self, env: gym.vector.VectorEnv[Any, Any, Any]) -> None:
        super().__init__(env)
        self.counts: Counter[str] = Counter()

    def reset(self, **given: Any) -> tuple[Any, dict[str, Any]]:
        """Reset, and remember the masks."""
        observations, infos = self.env.reset(**given)
        self._masks, self._defaults = observations["action_mask"].copy(), infos["default_action"]
        return observations, infos

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Count, and step."""
        legal = self._masks[np.arange(self.num_envs), actions] == 1
        self.counts["actions"] += self.num_envs
        self.counts["illegal"] += int((~legal).sum())
        self.counts["choices"] += int(self._masks.sum())
        self.counts["against_clang"] += int((actions != self._defaults).sum())
        result = self.env.step(actions)
        observations, _, terminations, truncations, infos = result
        self.counts["episodes"] += int((terminations | truncations).sum())
        self.counts["failed"] += int(truncations.sum())
        self._masks, self._defaults = observations["action_mask"].copy(), infos["default_action"]
        return result


def learn(corpus: str, steps: int, seed: int) -> dict[str, Any]:
    """Return what an agent did while it learned for a number of decisions."""
    modules = open_corpus(corpus, toolchain=find_toolchain())
    arguments: dict[str, Any] = {"corpus": modules, "scope": "function", "strict": True}
    single = gym.make(ENVIRONMENT, **arguments)
    normalization = fit_normalization(single, observations=min(steps, 2_000))
    single.close()
    lookup = LookUpActions(gym.make_vec(ENVIRONMENT, num_envs=4, autoreset_mode="SameStep", **arguments))
    envs = VecEnvAdapter(vector.NormalizeFeatures(lookup, normalization))
    model = MaskablePPO("MultiInputPolicy", envs, n_steps=256, gamma=1.0, seed=seed, device="cpu")
    started = time.monotonic()
    model.learn(steps)
    seconds = time.monotonic() - started
    envs.close()
    return {"steps": model.num_timesteps, "modules": len(modules), "seconds": round(seconds, 1), **lookup.counts}


def main() -> None:
    """Learn, print the counts, and write them as JSON where that is asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", default="builtin,zstd")
    parser.add_argument("--steps", type=int, default=50_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path, help="where to write the counts")
    options = parser.parse_args()
    result = learn(options.corpus, options.steps, options.seed)
    for name, value in result.items():
        print(f"{name:15} {value:>10,}")
    if options.json:
        head = {"mlgo_gym": mlgo_gym.__version__, "corpus": options.corpus, "seed": options.seed}
        options.json.write_text(json.dumps({**head, **result}, indent=2) + "\n")


if __name__ == "__main__":
    main()
