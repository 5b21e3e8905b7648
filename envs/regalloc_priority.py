"""`mlgo/RegAllocPriority-v0`: in which order live ranges are given registers."""

from __future__ import annotations

import struct
from typing import Any, ClassVar

import gymnasium as gym
import numpy as np

from mlgo_gym.envs.allocation import AllocationEnv
from mlgo_gym.errors import ToolchainError
from mlgo_gym.llvm.advisors import PRIORITY, Advisor
from mlgo_gym.llvm.toolchain import Toolchain
from mlgo_gym.session.decision import Decision
from mlgo_gym.tasks.allocation import AllocationTask
from mlgo_gym.tasks.feature_reference import STAGES, stage_names
from mlgo_gym.tasks.feature_table import PRIORITY_TABLE, FeatureTable
from mlgo_gym.tasks.features import FeatureLayout
from mlgo_gym.vector_env import CompilerVectorEnv

SCALE = 2.0**31
"""An action of 1 is this priority. A power of two keeps every distinct action distinct, and clang, which converts the
float32 that it is sent to a 32-bit unsigned number and turns 2^32 and NaN into 0, never meets either."""

_SPLIT = STAGES.index("split")
_LONGEST = 2**23


def size_order(size: int, stage: int) -> float:
    """Return the action, within 0 and 1, that puts long live ranges first, and those that wait to be split last.

    That is the order of LLVM's own heuristic (DefaultPriorityAdvisor::getPriority) as far as the features show it:
    it also needs the start of local ranges, hints and register classes. Sizes up to 2^23 slots keep their exact order
    as float32.

    Args:
        size: the feature `li_size`, in slots.
        stage: the feature `stage`; every clang numbers the stages up to `spill` as in `STAGES`.
    """
    return (min(size, _LONGEST - 1) + (0 if stage == _SPLIT else _LONGEST)) / (2 * _LONGEST)


class PriorityTask(AllocationTask):
    """The decisions of LLVM's priority advisor (llvm/lib/CodeGen/MLRegAllocPriorityAdvisor.cpp)."""

    name: ClassVar[str] = "priority"
    advisors: ClassVar[tuple[Advisor, ...]] = (PRIORITY,)
    tables: ClassVar[tuple[FeatureTable, ...]] = (PRIORITY_TABLE,)

    advice_unit: ClassVar[float] = SCALE

    _stages: tuple[str, ...] = STAGES

    def flags(self, toolchain: Toolchain) -> tuple[str, ...]:
        """Return no flags, but note how this clang numbers the stages of a live range."""
        self._stages = stage_names(toolchain.version[0])
        return ()

    def _bind(self, observation: str) -> None:
        self.layout = FeatureLayout(self.headers[0])
        self.feature_names = self.layout.names
        if missing := {"li_size", "stage"} - set(self.feature_names):
            raise ToolchainError(f"the priority advisor was to have {sorted(missing)}; it has {self.feature_names}")
        self.action_space = gym.spaces.Box(0.0, 1.0, (1,), np.float32)
        flat = observation != "dict"
        self.observation_space = self.layout.flat_space() if flat else self.layout.dict_space()
        self._see = self.layout.flat if flat else self.layout.tensors

    def observe(self, decision: Decision) -> Any:
        """Return the features of a live range."""
        return self._see(decision.payload)

    def final_observation(self) -> Any:
        """Return zeros."""
        return self._see(bytes(self.layout.dtype.itemsize))

    def default_action(self, decision: Decision) -> Any:
        """Return `size_order()`'s priority, float32 of shape (1,); LLVM's own needs more than the features tell."""
        features = np.frombuffer(decision.payload, self.layout.dtype)[0]
        return np.array([size_order(features["li_size"].item(), features["stage"].item())], np.float32)

    def encode(self, decision: Decision, action: Any) -> bytes | None:  # noqa: ARG002 - the bounds are the same for all
        """Return the advice of an action within 0 and 1; None for anything else."""
        try:
            value = np.asarray(action, np.float32)
        except (TypeError, ValueError):
            return None
        if value.size != 1:
            return None
        number = value.item()
        return struct.pack("<f", SCALE * number) if 0.0 <= number <= 1.0 else None

    def describe(self, decision: Decision) -> list[tuple[str, str]]:
        """Return the features of a live range."""
        features = np.frombuffer(decision.payload, self.layout.dtype)[0]
        stage = features["stage"].item()
        return [
            ("size", f"{features['li_size'].item()} slots"),
            ("stage", self._stages[stage] if 0 <= stage < len(self._stages) else str(stage)),
            ("weight", f"{features['weight'].item():g}"),
        ]

    def name_action(self, action: Any) -> str:
        """Return an action in words."""
        return f"give it priority {SCALE * np.asarray(action).item():.0f}"


class RegAllocPriorityEnv(AllocationEnv):
    """Decide in which order live ranges are given registers.

    ## Description

    LLVM's greedy register allocator keeps live ranges in a queue and always takes the one of highest priority. Each
    time it puts one in, it asks for the priority. One episode is one compile of one module, or, with
    `scope="function"`, the allocation of one function of it.

    ## Observation space

    With `observation="flat"` a `Box(-2**53, 2**53, (3,), float32)` named by `feature_names`; with `"dict"` the raw
    tensors. An infinite weight (the live range cannot be spilled) is shown as 2^53.

    ## Action space

    `Box(0, 1, (1,), float32)`: the priority in units of 2^31; higher comes earlier. clang converts it to a 32-bit
    unsigned number, so differences below 2^-31 do not count. Numbers outside the space and NaN, which clang would wrap
    or turn into 0, are illegal actions: with `strict=False` the default is taken and `info["illegal_action"]` is True;
    with `strict=True` they raise.

    ## Rewards

    0 until the end; then, by default (`reward="spill_cost"`), the relative change of the weighted cost of spills,
    reloads, folded reloads and copies in clang's optimisation record, summed over functions, against a plain compile.
    `"spill_count"` counts spills, reloads and folded reloads; `"text_size"` and the other sizes weigh the object. The
    weights (`spill_weight` 1, `reload_weight` 4, `folded_reload_weight` 4, `copy_weight` 0.2) are those with which LLVM
    scores allocations (llvm/lib/CodeGen/RegAllocScore.cpp).

    ## Starting state

    The first question of a module, sampled uniformly from those of the corpus that have one, or named by
    `reset(options={"module": name})`; with `scope="function"` the first question of a function, sampled uniformly from
    those of the sampled module that have one, or named by `"function"`.

    ## Episode end

    `terminated` when clang has written the object file; with `scope="function"`, unless a size is rewarded, as soon as
    the function's registers are allocated and clang has said what that costs, which are the numbers of its record.
    `truncated` only when the compile failed; then `info["error"]` says why and the reward is `error_reward`.

    ## Info

    `default_action` is longest first: LLVM's own priority cannot be reproduced from three features. At the end the
    costs of allocation and the sizes, each with its `baseline_…`; an episode that ended with its function has no sizes.

    ## Arguments

    Those of every environment, and the four weights. Modules are optimised once and episodes only generate code
    (`preoptimize=True`).

    ```python
    import gymnasium as gym
    import mlgo_gym
    env = gym.make("mlgo/RegAllocPriority-v0", corpus="zstd", reward="spill_cost")
    ```

    ## Version history

    * v0: first version
    """

    task_type: ClassVar[type[AllocationTask]] = PriorityTask


class RegAllocPriorityVectorEnv(CompilerVectorEnv):
    """`RegAllocPriorityEnv` many times over: see `CompilerVectorEnv`."""

    env_type = RegAllocPriorityEnv
