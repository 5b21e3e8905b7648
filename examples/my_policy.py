"""A policy of your own, against clang's heuristic.

pip install '.[cli]'   # in a clone of mlgo-gym
python my_policy.py [CORPUS]
mlgo-gym evaluate mlgo/Inline-v0 --policy default,my_policy.py:OneBlock --jobs 2
"""

import sys
from collections.abc import Mapping
from typing import Any

from mlgo_gym import CompilerEnv, evaluate


class OneBlock:
    """Inlines functions of one basic block that cost little, and otherwise does what clang would."""

    def __init__(self, env: CompilerEnv) -> None:
        self.blocks = env.feature_names.index("callee_basic_block_count")
        self.cost = env.feature_names.index("cost_estimate")

    def act(self, observation: Any, info: Mapping[str, Any]) -> int:
        """Return 1 to inline the call, 0 to keep it."""
        small = observation[self.blocks] == 1 and observation[self.cost] < 20
        return 1 if small else int(info["default_action"])


def main(corpus: str = "builtin") -> None:
    """Print how it compares with clang on five modules."""
    policies = {"default": "default", "one block": f"{__file__}:OneBlock"}
    print(evaluate("mlgo/Inline-v0", corpus=corpus, policies=policies, limit=5))


if __name__ == "__main__":
    main(*sys.argv[1:])
