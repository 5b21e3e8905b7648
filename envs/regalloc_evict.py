"""`mlgo/RegAllocEvict-v0`: the live range to evict for one without a register."""

import struct
from collections.abc import Mapping
from typing import Any, ClassVar

import gymnasium as gym
import numpy as np
import numpy.typing as npt

from mlgo_gym.compiler.decision import Decision
from mlgo_gym.env import CompilerEnv
from mlgo_gym.errors import ToolchainError
from mlgo_gym.llvm.advisors import EVICTION, Advisor, default_eviction
from mlgo_gym.tasks.feature_layout import FeatureLayout
from mlgo_gym.tasks.features import BOUNDS, EVICTION_TABLE, FeatureTable
from mlgo_gym.tasks.task import AllocationTask
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
            raise ToolchainError(
                f"expected an eviction advisor with the features {missing}, got {[*fields]}; use another clang"
            )
        self.columns = int(np.prod(header.dtype["mask"].shape))
        formats = {spec.name: struct.Struct(f"<{spec.struct_format}") for spec in header.features}
        self._rule = [(formats[name], fields[name][1]) for name in _RULE_FEATURES]
        self._mask_offset = fields["mask"][1]
        self.layout = FeatureLayout(header, bounds=BOUNDS)
        self.unmasked_layout = FeatureLayout(header, exclude_features=("mask",), bounds=BOUNDS)
        self.feature_names = self.unmasked_layout.names
        self.action_space = gym.spaces.Discrete(self.columns)
        self._vector = observation == "vector"
        if self._vector:
            self.observation_space, self.feature_names = self.layout.flat_space(), self.layout.names
        else:
            mask = gym.spaces.Box(0, 1, (self.columns,), np.int8)
            self.observation_space = gym.spaces.Dict(observations=self.unmasked_layout.flat_space(), action_mask=mask)
        self._advice = [struct.pack("<q", column) for column in range(self.columns)]

    def observe(self, decision: Decision) -> Any:
        """Return the features of all columns and the mask."""
        return self._see(decision.payload)

    def _see(self, payload: bytes) -> Any:
        if self._vector:
            return self.layout.flat(payload)
        return {"observations": self.unmasked_layout.flat(payload), "action_mask": self._mask(payload)}

    def final_observation(self) -> Any:
        """Return zeros; the mask allows the last column, since masked distributions need a legal action."""
        payload = bytearray(self.layout.dtype.itemsize)
        struct.pack_into("<q", payload, self._mask_offset + 8 * (self.columns - 1), 1)
        return self._see(bytes(payload))

    def action_mask(self, decision: Decision) -> npt.NDArray[np.int8]:
        """Return the feature `mask`: int8 of shape (columns,)."""
        return self._mask(decision.payload)

    def _mask(self, payload: bytes) -> npt.NDArray[np.int8]:
        return np.frombuffer(payload, "<i8", self.columns, self._mask_offset).astype(np.int8)

    def default_action(self, decision: Decision) -> int:
        """Return LLVM's own choice as far as the features determine it (`mlgo_gym.llvm.advisors.default_eviction`)."""
        payload = decision.payload
        return default_eviction(*(columns.unpack_from(payload, offset) for columns, offset in self._rule))

    def encode(self, decision: Decision, action: Any) -> bytes | None:
        """Return the advice of a column whose mask is 1; None for anything else."""
        is_legal = 0 <= action < self.columns and decision.payload[self._mask_offset + 8 * action]
        return self._advice[action] if is_legal else None


class RegAllocEvictEnv(CompilerEnv):
    """Decide which live range loses its register.

    LLVM's greedy register allocator takes live ranges from a queue. If a live range, the candidate, finds no free
    register, the allocator may evict the live ranges of one register. They return to the queue, to be assigned
    elsewhere, split or spilled. The decision is which register to free. One episode is one compile of one module, or
    with `scope="function"` the allocation of one function of it.

    ## Observation space

    With `observation="flat"` a `Dict` of `observations`, a `Box` of shape `(N,)`, float32, whose elements are named by
    `feature_names` (N is 628 where there are 33 columns), and `action_mask`, `Box(0, 1, (33,), int8)`. Flags and
    relative features are from 0 to 1; nothing bounds the others. With `"vector"` one `Box` of all features, `mask`
    included, for policies without `Dict` support. The compiler's header defines the number of columns. Each feature
    except `progress` has one value per column: columns 0 to 31 are positions in the allocation order, column 32 is the
    candidate itself. All floats except `progress` are divided by their largest value among the columns
    (MLEvictAdvisor::tryFindEvictionCandidate). A NaN, which means an infinite weight, becomes 0.

    ## Action space

    `Discrete(33)`: the column to free, among those whose mask is 1. Actions 0 to 31 evict the live ranges in this
    register of the allocation order; 32 evicts nothing, which is legal unless the candidate must have a register.

    An illegal index never reaches clang, which would crash: it raises `ActionError`. With `strict=False` the default
    action replaces it and `info["illegal_action"]` is True. `action_masks()` and `info["action_mask"]` also
    return the mask.

    ## Rewards

    0 until the end. The default metric `spill_cost` is the weighted cost of spills, reloads, folded reloads and copies
    in clang's optimisation record, summed over functions; the reward is its relative change against a plain compile.
    LLVM scores allocations with the same weights (llvm/lib/CodeGen/RegAllocScore.cpp). `text` and the other sizes
    measure the object; `metric="instructions"` counts executed instructions.

    ## Start and end

    As in `mlgo/Inline-v0`. With `scope="function"` an episode starts at the first decision of a function, sampled
    uniformly from those of the module that have one, or named by `"function"`. With an allocation metric it is
    `terminated` as soon as clang has reported the cost of the function, with the numbers of its record.

    `default_action` is a rule over the features, which is clang's own choice in most functions;
    `mlgo_gym.llvm.advisors.default_eviction` lists the facts that only clang has.
    Modules are optimised once and episodes only generate code (`preoptimize` in `compile_options`).

    ```python
    import gymnasium as gym
    import mlgo_gym
    env = gym.make("mlgo/RegAllocEvict-v0", corpus="zstd", metric="spill_cost", scope="function")
    ```
    """

    task_type = EvictTask


class RegAllocEvictVectorEnv(CompilerVectorEnv):
    """`RegAllocEvictEnv` many times over: see `CompilerVectorEnv`."""

    env_type = RegAllocEvictEnv
