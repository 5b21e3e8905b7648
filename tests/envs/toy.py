"""A new decision point in one file, as CONTRIBUTING describes it: it asks about calls, and says no or yes."""

import struct
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import gymnasium as gym

from mlgo_gym import CompilerEnv, CompilerVectorEnv
from mlgo_gym.compiler.decision import Decision
from mlgo_gym.llvm.advisors import Advisor
from mlgo_gym.llvm.training_log import LogHeader
from mlgo_gym.tasks.feature_layout import FeatureLayout
from mlgo_gym.tasks.features import Feature, FeatureTable
from mlgo_gym.tasks.task import Task

TRIAL = """
define internal i64 @callee(i64 %x) {
  %y = mul i64 %x, 3
  ret i64 %y
}
define i64 @caller(i64 %x) {
  %r = call i64 @callee(i64 %x)
  ret i64 %r
}
"""

answered: list[bytes] = []


def _answer(header: LogHeader, payload: bytes) -> bytes:
    assert len(payload) == header.observation_bytes
    answered.append(payload)
    return struct.pack("<q", 1)


TOY = Advisor(
    "toy",
    ("-enable-ml-inliner=release", "-inliner-interactive-channel-base=", "-inliner-interactive-include-default"),
    answer=_answer,
    trial=TRIAL,
)


class SmallPolicy:
    """Says yes to callees of one block."""

    def __init__(self, env: CompilerEnv) -> None:
        self._place = env.feature_names.index("callee_basic_block_count")

    def act(self, observation: Any, info: Mapping[str, Any]) -> int:
        """Return 1 for a callee of one block."""
        return int(observation[self._place] == 1)


class ToyTask(Task):
    """Whether to do it."""

    name: ClassVar[str] = "toy"
    advisors: ClassVar[tuple[Advisor, ...]] = (TOY,)
    tables: ClassVar[tuple[FeatureTable, ...]] = (
        FeatureTable(
            "Toy", "Of the call.", (Feature("callee_basic_block_count", "the callee's blocks"),), "That is all."
        ),
    )
    policies: ClassVar[Mapping[str, Callable[[Any], Any]]] = {"small": SmallPolicy}

    def __init__(self, bias: float) -> None:
        self.bias = bias

    def _bind(self, observation: str) -> None:
        self.layout = FeatureLayout(self.headers[0])
        self.feature_names = self.layout.names
        self.action_space = gym.spaces.Discrete(2)
        self.observation_space = self.layout.flat_space()

    def observe(self, decision: Decision) -> Any:
        """Return the features."""
        return self.layout.flat(decision.payload)

    def final_observation(self) -> Any:
        """Return zeros."""
        return self.layout.flat(bytes(self.layout.dtype.itemsize))

    def default_action(self, decision: Decision) -> int:
        """Return clang's own choice."""
        return int(self.layout.value(decision.payload, "inlining_default").item())

    def encode(self, decision: Decision, action: Any) -> bytes | None:
        """Return the advice of 0 or 1."""
        return struct.pack("<q", action) if action in (0, 1) else None


class ToyEnv(CompilerEnv):
    """Decide whether to do it.

    ## Info

    What every environment says.

    ## Arguments

    Those that follow.

    Args:
        bias: A number that nothing uses.
    """

    task_type = ToyTask

    def __init__(self, *, bias: float = 0.0, **arguments: Any) -> None:
        super().__init__(bias=bias, **arguments)


class ToyVectorEnv(CompilerVectorEnv):
    """`ToyEnv` many times over."""

    env_type = ToyEnv
