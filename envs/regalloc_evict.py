"""`mlgo/RegAllocEvict-v0`: which live range to evict for one that found no register."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import gymnasium as gym
import numpy as np
import numpy.typing as npt

from mlgo_gym.envs.allocation import AllocationEnv
from mlgo_gym.errors import ToolchainError
from mlgo_gym.llvm.advisors import EVICTION, Advisor
from mlgo_gym.llvm.eviction_rule import default_eviction
from mlgo_gym.session.decision import Decision
from mlgo_gym.tasks.allocation import AllocationTask
from mlgo_gym.tasks.feature_table import EVICTION_TABLE, FeatureTable
from mlgo_gym.tasks.features import FeatureLayout
from mlgo_gym.vector_env import CompilerVectorEnv

_RULE_FEATURES = ("mask", "is_hint", "is_local", "nr_broken_hints", "nr_urgent", "use_def_density")


class EvictTask(AllocationTask):
    """The decisions of LLVM's eviction advisor (llvm/lib/CodeGen/MLRegAllocEvictAdvisor.cpp)."""

    name: ClassVar[str] = "eviction"
    advisors: ClassVar[tuple[Advisor, ...]] = (EVICTION,)
    tables: ClassVar[tuple[FeatureTable, ...]] = (EVICTION_TABLE,)

    def _bind(self, observation: str) -> None:
        header = self.headers[0]
        fields: Mapping[str, Any] = header.dtype.fields or {}
        if missing := [name for name in _RULE_FEATURES if name not in fields]:
            raise ToolchainError(f"the eviction advisor was to have the features {missing}; it has {[*fields]}")
        self.columns = int(np.prod(header.dtype["mask"].shape))
        self._rule: list[tuple[struct.Struct, int]] = []
        for name in _RULE_FEATURES:
            kind = header.dtype[name].base.char
            # struct's l is of the machine, q is of eight bytes.
            self._rule.append((struct.Struct(f"<{self.columns}{'q' if kind == 'l' else kind}"), fields[name][1]))
        self._mask_offset = fields["mask"][1]
        self.layout = FeatureLayout(header)
        self._features = FeatureLayout(header, leave_out=("mask",))
        self.feature_names = self._features.names
        self.action_space = gym.spaces.Discrete(self.columns)
        self._see: Callable[[bytes], Any] | None = None
        if observation == "flat":
            mask = gym.spaces.Box(0, 1, (self.columns,), np.int8)
            self.observation_space = gym.spaces.Dict(observations=self._features.flat_space(), action_mask=mask)
        elif observation == "vector":
            self.observation_space, self._see = self.layout.flat_space(), self.layout.flat
            self.feature_names = self.layout.names
        else:
            self.observation_space, self._see = self.layout.dict_space(), self.layout.tensors
        self._advice = [struct.pack("<q", column) for column in range(self.columns)]

    def observe(self, decision: Decision) -> Any:
        """Return the features of all columns, and which may be chosen."""
        if self._see is not None:
            return self._see(decision.payload)
        return {"observations": self._features.flat(decision.payload), "action_mask": self.action_mask(decision)}

    def final_observation(self) -> Any:
        """Return zeros; the mask allows the last column, for masked distributions need one."""
        nothing = bytes(self.layout.dtype.itemsize)
        if self._see is not None:
            return self._see(nothing)
        mask = np.zeros(self.columns, np.int8)
        mask[-1] = 1
        return {"observations": self._features.flat(nothing), "action_mask": mask}

    def action_mask(self, decision: Decision) -> npt.NDArray[np.int8]:
        """Return the feature `mask`: int8 of shape (columns,)."""
        return np.frombuffer(decision.payload, "<i8", self.columns, self._mask_offset).astype(np.int8)

    def default_action(self, decision: Decision) -> int:
        """Return LLVM's own choice, near-exactly: see `mlgo_gym.llvm.eviction_rule`."""
        payload = decision.payload
        return default_eviction(*(columns.unpack_from(payload, offset) for columns, offset in self._rule))

    def encode(self, decision: Decision, action: Any) -> bytes | None:
        """Return the advice of a column whose mask is 1; None for anything else."""
        try:
            column = int(action)
        except (TypeError, ValueError, OverflowError):
            return None
        if column != action or not 0 <= column < self.columns:
            return None
        legal = decision.payload[self._mask_offset + 8 * column]
        return self._advice[column] if legal else None

    def describe(self, decision: Decision) -> list[tuple[str, str]]:
        """Return the candidate and each register that may be freed."""
        features = np.frombuffer(decision.payload, self.layout.dtype)[0]
        rows = []
        for column in np.flatnonzero(features["mask"].reshape(-1)):
            values = {
                name: features[name].reshape(-1)[column].item()
                for name in (
                    "use_def_density",
                    "nr_broken_hints",
                    "nr_urgent",
                    "is_hint",
                    "is_local",
                    "hottest_bb_freq_by_max",
                )
                if name in (self.layout.dtype.names or ())
            }
            label = "candidate" if column == self.columns - 1 else f"column {column}"
            rows.append((label, ", ".join(f"{name} {value:g}" for name, value in values.items())))
        return rows

    def name_action(self, action: Any) -> str:
        """Return an action in words."""
        column = int(action)
        return "evict nothing" if column == self.columns - 1 else f"evict from column {column}"


class RegAllocEvictEnv(AllocationEnv):
    """Decide which live range loses its register.

    ## Description

    LLVM's greedy register allocator takes live ranges from a queue. When one, the candidate, finds no free register,
    the allocator may evict the live ranges that occupy one; they go back to the queue, to be assigned elsewhere, split
    or spilled. At each such point it asks which register to free. One episode is one compile of one module, or, with
    `scope="function"`, the allocation of one function of it.

    ## Observation space

    With `observation="flat"` a `Dict` of `observations`, `Box(-2**53, 2**53, (N,), float32)` whose elements are named
    by `feature_names` (N is 628 where there are 33 columns), and `action_mask`, `Box(0, 1, (33,), int8)`. With `"dict"`
    the raw tensors, and with `"vector"` one `Box` of them all, from `mask[0]` on, for policies that take no `Dict`. The
    number of columns comes from the compiler's header. Each feature but `progress` has one value
    per column: columns 0 to 31 are positions in the allocation order, column 32 is the candidate itself. All floats
    but `progress` are divided by their largest value among the columns (MLEvictAdvisor::tryFindEvictionCandidate); NaN
    stands for an infinite weight and is shown as 0.

    ## Action space

    `Discrete(33)`: the column to free, among those whose mask is 1.

    | action | meaning |
    |---|---|
    | 0 … 31 | evict what occupies this register of the allocation order |
    | 32 | evict nothing; legal unless the candidate must have a register |

    An illegal index never reaches clang, which it would crash: with `strict=False` the default rule's choice is taken
    and `info["illegal_action"]` is True; with `strict=True` it raises. `action_masks()` and `info["action_mask"]` give
    the mask too.

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

    ## Default action

    `default_action` comes from a rule that sees what the features show: `mlgo_gym.llvm.eviction_rule` says where that
    is less than clang sees. Functions with questions whose code comes out byte for byte as plain clang's when the rule
    answers, and modules where all do (`benchmarks/default_eviction.py`):

    | clang | builtin | zstd | lz4 |
    |---|---|---|---|
    | 19.1.7 | 156 of 186 functions, 25 of 36 modules | 183 of 220, 11 of 24 | 21 of 29, 1 of 3 |
    | 22.1.8 | 156 of 185 functions, 25 of 36 modules | 191 of 219, 11 of 23 | 19 of 27, 0 of 3 |

    ## Info

    At the end the costs of allocation and the sizes, each with its `baseline_…`; an episode that ended with its
    function has no sizes.

    ## Arguments

    Those of every environment, and the four weights. Modules are optimised once and episodes only generate code
    (`preoptimize=True`).

    ```python
    import gymnasium as gym
    import mlgo_gym
    env = gym.make("mlgo/RegAllocEvict-v0", corpus="zstd", reward="spill_cost", scope="function")
    ```

    ## Version history

    * v0: first version
    """

    task_type: ClassVar[type[AllocationTask]] = EvictTask


class RegAllocEvictVectorEnv(CompilerVectorEnv):
    """`RegAllocEvictEnv` many times over: see `CompilerVectorEnv`."""

    env_type = RegAllocEvictEnv
