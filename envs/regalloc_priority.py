"""`mlgo/RegAllocPriority-v0`: in which order live ranges are given registers."""

from __future__ import annotations

import struct
from typing import Any, ClassVar

import gymnasium as gym
import numpy as np
from gymnasium.utils import EzPickle
from typing_extensions import Unpack

from mlgo_gym.advisors import PRIORITY, Advisor
from mlgo_gym.allocation_record import CostWeights
from mlgo_gym.allocation_task import AllocationTask
from mlgo_gym.env import CompilerEnv
from mlgo_gym.errors import ToolchainError
from mlgo_gym.features import FeatureLayout
from mlgo_gym.options import EnvOptions
from mlgo_gym.session import Decision

LARGEST_PRIORITY = 4294967040.0
"""The largest float32 that a 32-bit unsigned number holds; clang turns larger ones into 0."""

STAGES = ("new", "assign", "split", "split2", "spill", "done")
"""The stages of a live range (LiveRangeStage in llvm/lib/CodeGen/RegAllocEvictionAdvisor.h)."""

_SPLIT = STAGES.index("split")
_BOOST = 2**23


def size_order(size: int, stage: int) -> float:
    """Return the priority that puts long live ranges first, and those that wait to be split last.

    That is the order of LLVM's own heuristic (DefaultPriorityAdvisor::getPriority) as far as the features show it:
    it also needs the start of local ranges, hints and register classes. Sizes up to 2^23 slots keep their exact order
    as float32.
    """
    return float(min(size, _BOOST - 1) + (0 if stage == _SPLIT else _BOOST))


class PriorityTask(AllocationTask):
    """The decisions of LLVM's priority advisor (llvm/lib/CodeGen/MLRegAllocPriorityAdvisor.cpp)."""

    name: ClassVar[str] = "priority"
    advisors: ClassVar[tuple[Advisor, ...]] = (PRIORITY,)

    def _bind(self, observation: str) -> None:
        self.layout = FeatureLayout(self.headers[0])
        self.feature_names = self.layout.names
        if missing := {"li_size", "stage"} - set(self.feature_names):
            raise ToolchainError(f"the priority advisor was to have {sorted(missing)}; it has {self.feature_names}")
        self.action_space = gym.spaces.Box(0.0, LARGEST_PRIORITY, (1,), np.float32)
        flat = observation == "flat"
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
        """Return the advice of a priority within the bounds; None for anything else."""
        try:
            value = np.asarray(action, np.float32)
        except (TypeError, ValueError):
            return None
        if value.size != 1:
            return None
        number = value.item()
        return struct.pack("<f", number) if 0.0 <= number <= LARGEST_PRIORITY else None

    def describe(self, decision: Decision) -> list[tuple[str, str]]:
        """Return the features of a live range."""
        features = np.frombuffer(decision.payload, self.layout.dtype)[0]
        stage = features["stage"].item()
        return [
            ("size", f"{features['li_size'].item()} slots"),
            ("stage", STAGES[stage] if 0 <= stage < len(STAGES) else str(stage)),
            ("weight", f"{features['weight'].item():g}"),
        ]

    def name_action(self, action: Any) -> str:
        """Return an action in words."""
        return f"give it priority {np.asarray(action).item():g}"


class RegAllocPriorityEnv(CompilerEnv):
    """Decide in which order live ranges are given registers.

    ## Description

    LLVM's greedy register allocator keeps live ranges in a queue and always takes the one of highest priority. Each
    time it puts one in, it asks for the priority. One episode is one compile of one module, or, with
    `scope="function"`, the allocation of one function of it.

    ## Observation space

    With `observation="flat"` a `Box(-2**53, 2**53, (3,), float32)` named by `feature_names`; with `"dict"` the raw
    tensors. An infinite weight (the live range cannot be spilled) is shown as 2^53.

    ## Action space

    `Box(0, 4294967040, (1,), float32)`: the priority; higher comes earlier. clang converts it to a 32-bit unsigned
    number, so only the integer part counts, and NaN, infinities, negative numbers and numbers of 2^32 and more, which
    clang would turn into 0 or wrap, are illegal actions: with `strict=False` the default is taken and
    `info["illegal_action"]` is True; with `strict=True` they raise. Libraries that act within ±1 want
    `gymnasium.wrappers.RescaleAction`.

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

    `terminated` when clang has written the object file. `truncated` only when the compile failed; then `info["error"]`
    says why and the reward is `error_reward`.

    ## Info

    `module`, `context` (the function), `decision`, `default_action` (longest first: LLVM's own priority cannot be
    reproduced from three features); at the end `spill_cost`, `spill_count`, the sizes, each with its `baseline_…`,
    `reduction`, and `functions`: a list with the costs of each function.

    ## Arguments

    Those of `CompilerEnv`, and the four weights. Modules are optimised once and episodes only generate code
    (`preoptimize=True`).

    ```python
    import gymnasium as gym
    import mlgo_gym
    env = gym.make("mlgo/RegAllocPriority-v0", corpus="zstd", reward="spill_cost")
    ```

    ## Version history

    * v0: first version
    """

    def __init__(
        self,
        *,
        spill_weight: float = 1.0,
        reload_weight: float = 4.0,
        folded_reload_weight: float = 4.0,
        copy_weight: float = 0.2,
        **options: Unpack[EnvOptions],
    ) -> None:
        weights = CostWeights(spill_weight, reload_weight, folded_reload_weight, copy_weight)
        options.setdefault("reward", "spill_cost")
        super().__init__(PriorityTask(weights), **options)
        EzPickle.__init__(
            self,
            spill_weight=spill_weight,
            reload_weight=reload_weight,
            folded_reload_weight=folded_reload_weight,
            copy_weight=copy_weight,
            **options,
        )
