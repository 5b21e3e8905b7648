"""`mlgo/RegAllocPriority-v0`: the order in which live ranges get registers."""

import struct
from collections.abc import Mapping
from typing import Any, ClassVar

import gymnasium as gym
import numpy as np

from mlgo_gym.compiler.decision import Decision
from mlgo_gym.env import CompilerEnv
from mlgo_gym.errors import ToolchainError
from mlgo_gym.llvm.advisors import PRIORITY, Advisor
from mlgo_gym.tasks.feature_layout import FeatureLayout
from mlgo_gym.tasks.features import PRIORITY_TABLE, STAGES, WEIGHT_CAP, FeatureTable
from mlgo_gym.tasks.task import AllocationTask
from mlgo_gym.vector_env import CompilerVectorEnv

SCALE = 2.0**31
"""Priority of the action 1. A power of two keeps distinct actions distinct. clang converts the float32 to a 32-bit
unsigned number, and would turn 2^32 and NaN into 0."""

_SPLIT = STAGES.index("split")
_LONGEST = 2**23
_INT64, _FLOAT = struct.Struct("<q"), struct.Struct("<f")


def size_order(size: int, stage: int) -> float:
    """Return the action, from 0 to 1, that puts long live ranges first and those that wait for a split last.

    This is the order of LLVM's own heuristic (DefaultPriorityAdvisor::getPriority) as far as the features determine it.
    LLVM also uses the start of local ranges, hints and register classes. Sizes up to 2^23 slots keep their order.

    Args:
        size: The feature `li_size`, in slots.
        stage: The feature `stage`; every clang numbers the stages up to `spill` as in `STAGES`.
    """
    return (min(size, _LONGEST - 1) + (0 if stage == _SPLIT else _LONGEST)) / (2 * _LONGEST)


class PriorityTask(AllocationTask):
    """The decisions of LLVM's priority advisor (llvm/lib/CodeGen/MLRegAllocPriorityAdvisor.cpp)."""

    name: ClassVar[str] = "priority"
    advisors: ClassVar[tuple[Advisor, ...]] = (PRIORITY,)
    tables: ClassVar[tuple[FeatureTable, ...]] = (PRIORITY_TABLE,)

    advice_unit: ClassVar[float] = SCALE

    def _bind(self, observation: str) -> None:
        del observation  # both forms are equal without a mask
        self.layout = FeatureLayout(self.headers[0], caps={"weight": WEIGHT_CAP})
        self.feature_names = self.layout.names
        if missing := {"li_size", "stage"} - set(self.feature_names):
            raise ToolchainError(
                f"expected a priority advisor with the features {sorted(missing)}, got {self.feature_names}; "
                "use another clang"
            )
        fields: Mapping[str, Any] = self.layout.dtype.fields or {}
        self._offsets = fields["li_size"][1], fields["stage"][1]
        self.action_space = gym.spaces.Box(0.0, 1.0, (1,), np.float32)
        self.observation_space = self.layout.flat_space()

    def observe(self, decision: Decision) -> Any:
        """Return the features of a live range."""
        return self.layout.flat(decision.payload)

    def final_observation(self) -> Any:
        """Return zeros."""
        return self.layout.flat(bytes(self.layout.dtype.itemsize))

    def default_action(self, decision: Decision) -> Any:
        """Return the priority of `size_order()`, float32 of shape (1,); the features do not determine LLVM's own."""
        read, (size_offset, stage_offset) = _INT64.unpack_from, self._offsets
        (size,), (stage,) = read(decision.payload, size_offset), read(decision.payload, stage_offset)
        return np.array([size_order(size, stage)], np.float32)

    def encode(self, decision: Decision, action: Any) -> bytes | None:  # noqa: ARG002 - the bounds are the same for all
        """Return the advice of an action from 0 to 1; None for anything else."""
        number = action.item() if isinstance(action, np.ndarray) else action
        return _FLOAT.pack(SCALE * number) if 0.0 <= number <= 1.0 else None


class RegAllocPriorityEnv(CompilerEnv):
    """Decide the order in which live ranges get registers.

    LLVM's greedy register allocator keeps live ranges in a queue and takes the one of highest priority. The decision is
    the priority of a live range that enters the queue. One episode is one compile of one module, or, with
    `scope="function"`, the allocation of one function of it.

    ## Observation space

    A `Box` of shape `(4,)`, float32, named by `feature_names`. Nothing bounds size and stage. An infinite weight, of a
    live range that cannot be spilled, becomes 65536, and `weight_infinite` is 1. No weight is larger.

    ## Action space

    `Box(0, 1, (1,), float32)`: the priority in units of 2^31; higher comes earlier. clang converts it to a 32-bit
    unsigned number, so differences below 2^-31 do not count. Numbers outside the space and NaN, which clang would wrap
    or turn into 0, raise `ActionError`. With `strict=False` the default action replaces numbers outside the space and
    `info["illegal_action"]` is True.

    Rewards, start, end and arguments are those of `mlgo/RegAllocEvict-v0`. `default_action` is longest first, since the
    features do not determine LLVM's own priority.
    """

    task_type = PriorityTask


class RegAllocPriorityVectorEnv(CompilerVectorEnv):
    """`RegAllocPriorityEnv` many times over: see `CompilerVectorEnv`."""

    env_type = RegAllocPriorityEnv
