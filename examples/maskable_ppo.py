"""MaskablePPO of sb3-contrib learns which live range loses its register; it never takes an illegal action.

pip install 'mlgo-gym[cli,evaluation,sb3]'
python maskable_ppo.py [CORPUS] [STEPS] [FILE]
mlgo-gym evaluate mlgo/RegAllocEvict-v0 --policy sb3:FILE
"""

import sys
from pathlib import Path
from typing import Any

import gymnasium as gym
from sb3_contrib import MaskablePPO

import mlgo_gym  # noqa: F401 - registers the environments
from mlgo_gym.corpus import open_corpus
from mlgo_gym.evaluation import evaluate
from mlgo_gym.llvm.toolchain import find_toolchain
from mlgo_gym.policies.sb3 import save_sb3
from mlgo_gym.wrappers import NormalizeFeatures, fit_normalization


class CountIllegalActions(gym.Wrapper[Any, Any, Any, Any]):
    """Counts the actions that clang's own choice had to replace."""

    count = 0

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Step, and look whether the action was legal."""
        result = self.env.step(action)
        self.count += result[4].get("illegal_action", False)
        return result


def main(corpus: str = "builtin", steps: str = "20000", file: str = "maskable_ppo.zip") -> None:
    """Train for a number of decisions, and print a table of the policy before, after, and clang."""
    modules = open_corpus(corpus, toolchain=find_toolchain())
    inner = gym.make("mlgo/RegAllocEvict-v0", corpus=modules.split("train"), scope="function")
    normalization = fit_normalization(inner, observations=min(int(steps), 2_000))
    counter = CountIllegalActions(inner)
    env = NormalizeFeatures(counter, normalization)
    trained, untrained = Path(file), Path(file).with_suffix(".untrained.zip")

    model = MaskablePPO("MultiInputPolicy", env, n_steps=min(int(steps), 1024), gamma=1.0, seed=0, device="cpu")
    save_sb3(model, untrained, env.feature_names, normalization)
    model.learn(int(steps))
    save_sb3(model, trained, env.feature_names, normalization)
    env.close()
    print(f"{counter.count} illegal actions in {model.num_timesteps} steps")

    policies = {"untrained": f"sb3:{untrained}", "trained": f"sb3:{trained}", "clang": "default"}
    print(evaluate("mlgo/RegAllocEvict-v0", corpus=modules.split("test"), policies=policies))


if __name__ == "__main__":
    main(*sys.argv[1:])
