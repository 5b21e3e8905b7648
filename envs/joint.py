"""`mlgo/Joint-v0`: inlining, eviction and priority in one compile."""

import math
import struct
from typing import Any, ClassVar

import gymnasium as gym
import numpy as np
import numpy.typing as npt

from mlgo_gym.compiler.decision import Decision
from mlgo_gym.envs.inline import InlineTask, InliningEnv
from mlgo_gym.envs.regalloc_evict import EvictTask
from mlgo_gym.envs.regalloc_priority import SCALE, PriorityTask, size_order
from mlgo_gym.llvm.advisors import ADVISORS, Advisor
from mlgo_gym.llvm.toolchain import Toolchain
from mlgo_gym.tasks.features import EVICTION_TABLE, INLINING_TABLE, PRIORITY_TABLE, FeatureTable
from mlgo_gym.tasks.task import Task
from mlgo_gym.vector_env import CompilerVectorEnv

INLINING, EVICTION, PRIORITY = range(3)
"""Index of each kind of decision, in clang's order."""

PRIORITY_FACTORS = (1.0, 0.0, 0.25, 0.5, 2.0, 4.0, math.inf)
"""Factor of each priority action on the size of the live range; 0 puts it last, infinity first."""

_ENDS = {0.0: struct.pack("<f", 0.0), math.inf: struct.pack("<f", SCALE)}
"""Advice by factor for the ends of the queue."""


class JointTask(Task):
    """The decisions of the inliner and of both advisors of the register allocator."""

    name: ClassVar[str] = "joint"
    advisors: ClassVar[tuple[Advisor, ...]] = ADVISORS
    tables: ClassVar[tuple[FeatureTable, ...]] = (INLINING_TABLE, EVICTION_TABLE, PRIORITY_TABLE)

    def __init__(self) -> None:
        self._inline, self._evict, self._priority = InlineTask(), EvictTask(), PriorityTask()

    def flags(self, toolchain: Toolchain) -> tuple[str, ...]:
        """Return what the three tasks need from this compiler."""
        return tuple(flag for task in (self._inline, self._evict, self._priority) for flag in task.flags(toolchain))

    def _bind(self, observation: str) -> None:
        tasks: tuple[Task, ...] = (self._inline, self._evict, self._priority)
        for task, header in zip(tasks, self.headers, strict=True):
            task.bind([header], observation)
        self._tasks = tasks
        self._layouts = [self._inline.layout, self._evict.unmasked_layout, self._priority.layout]
        first_priority = 2 + self._evict.columns
        self.actions = first_priority + len(PRIORITY_FACTORS)
        # The first action of each kind of decision, and the end of all.
        self._starts = (0, 2, first_priority, self.actions)
        self.action_space = gym.spaces.Discrete(self.actions)
        self._width = max(len(layout.names) for layout in self._layouts)
        self.feature_names = tuple(
            " | ".join(layout.names[position] if position < len(layout.names) else "-" for layout in self._layouts)
            for position in range(self._width)
        )
        self._vector = observation == "vector"
        boxes = [layout.flat_space() for layout in self._layouts]
        low = np.min([np.pad(box.low, (0, self._width - box.low.size)) for box in boxes], axis=0)
        high = np.max([np.pad(box.high, (0, self._width - box.high.size)) for box in boxes], axis=0)
        self.observation_space = gym.spaces.Dict(
            task=gym.spaces.Discrete(len(self.advisors)),
            action_mask=gym.spaces.Box(0, 1, (self.actions,), np.int8),
            observations=gym.spaces.Box(low, high, dtype=np.float32),
        )
        if self._vector:
            flags = len(self.advisors), self.actions
            low, high = np.pad(low, flags), np.pad(high, flags, constant_values=1)
            self.observation_space = gym.spaces.Box(low, high, dtype=np.float32)
            kinds = (f"task_{advisor.name}" for advisor in self.advisors)
            masks = (f"action_mask[{action}]" for action in range(self.actions))
            self.feature_names = (*kinds, *self.feature_names, *masks)

    def observe(self, decision: Decision) -> Any:
        """Return the kind of the decision, its features padded with zeros, and the mask."""
        inlining = decision.advisor == INLINING
        payload = self._inline.features(decision) if inlining else decision.payload
        return self._see(decision.advisor, payload, self.action_mask(decision))

    def _see(self, kind: int, payload: bytes, mask: npt.NDArray[np.int8]) -> Any:
        if self._vector:
            observations = np.zeros(self.observation_space.shape or (), np.float32)
            start = len(self.advisors)
            observations[kind] = 1
            self._layouts[kind].flat_into(payload, observations[start : start + len(self._layouts[kind].names)])
            observations[start + self._width :] = mask
            return observations
        vector = np.zeros(self._width, np.float32)
        self._layouts[kind].flat_into(payload, vector[: len(self._layouts[kind].names)])
        return {"task": np.int64(kind), "action_mask": mask, "observations": vector}

    def final_observation(self) -> Any:
        """Return zeros; the mask allows action 0, since masked distributions need a legal action."""
        mask = np.zeros(self.actions, np.int8)
        mask[0] = 1
        return self._see(INLINING, bytes(self._layouts[INLINING].dtype.itemsize), mask)

    def action_mask(self, decision: Decision) -> npt.NDArray[np.int8]:
        """Return the mask: the actions of this kind of decision that clang allows."""
        mask = np.zeros(self.actions, np.int8)
        first, end = self._starts[decision.advisor : decision.advisor + 2]
        mask[first:end] = self._evict.action_mask(decision) if decision.advisor == EVICTION else 1
        return mask

    def default_action(self, decision: Decision) -> int:
        """Return clang's own choice: exact for inlining, near-exact for eviction, by size for priority."""
        kind = decision.advisor
        return self._starts[kind] + (0 if kind == PRIORITY else int(self._tasks[kind].default_action(decision)))

    def encode(self, decision: Decision, action: Any) -> bytes | None:
        """Return the advice of an action that belongs to this kind of decision; None for anything else."""
        kind = decision.advisor
        own = action - self._starts[kind]
        if own < 0:
            return None
        return self._encode_priority(decision, own) if kind == PRIORITY else self._tasks[kind].encode(decision, own)

    def _encode_priority(self, decision: Decision, choice: int) -> bytes | None:
        if choice >= len(PRIORITY_FACTORS):
            return None
        factor = PRIORITY_FACTORS[choice]
        if factor in _ENDS:
            return _ENDS[factor]
        features = np.frombuffer(decision.payload, self._layouts[PRIORITY].dtype)[0]
        size, stage = features["li_size"].item(), features["stage"].item()
        return self._priority.encode(decision, size_order(int(size * factor), stage))


class JointEnv(InliningEnv):
    """Decide on inlining, eviction and priority in one compile.

    One episode is one compile of one module with the decisions of the inliner and of both advisors of the register
    allocator. All inlining decisions come first. Priorities and evictions follow, interleaved, function by function.

    ## Observation space

    With `observation="flat"` a `Dict` of `task`, `Discrete(3)`: 0 inlining, 1 eviction, 2 priority; `observations`, a
    `Box` of shape `(N,)`, float32, the features of that kind of decision as in its own environment, padded with zeros
    to the longest; and `action_mask`, `Box(0, 1, (A,), int8)`. `feature_names` names each element as
    `inlining | eviction | priority`. With `"vector"` one `Box` for policies without `Dict` support: the kind in one-hot
    form (3 elements), the features, and the mask.

    ## Action space

    `Discrete(A)`, the union of the three; A is 42 where eviction has 33 columns.

    | action | meaning |
    |---|---|
    | 0, 1 | keep or inline the call |
    | 2 … 34 | eviction: column 0 … 32 of `mlgo/RegAllocEvict-v0` |
    | 35 | priority: in the order of sizes, as `size_order` |
    | 36 | priority: last |
    | 37, 38, 39, 40 | priority: as if the live range had ¼, ½, 2, 4 times its size |
    | 41 | priority: first |

    MaskablePPO and other libraries with discrete policies take a single `Discrete` space. An action of another kind of
    decision, or a masked column, is illegal and raises `ActionError`. With `strict=False` clang's own choice replaces
    it and `info["illegal_action"]` is True.

    Rewards, start, end and arguments are those of `mlgo/Inline-v0`, without `credit`. An episode of default
    actions differs from the plain compile, since the features do not determine clang's own priorities.
    """

    task_type = JointTask


class JointVectorEnv(CompilerVectorEnv):
    """`JointEnv` many times over: see `CompilerVectorEnv`."""

    env_type = JointEnv
