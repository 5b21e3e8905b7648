"""What the two environments of the register allocator have in common: the weights of its costs."""

from __future__ import annotations

from typing import ClassVar

from gymnasium.utils import EzPickle
from typing_extensions import Unpack

from mlgo_gym.env import CompilerEnv
from mlgo_gym.episode.options import EnvOptions
from mlgo_gym.llvm.allocation_record import CostWeights
from mlgo_gym.tasks.allocation import AllocationTask


class AllocationEnv(CompilerEnv):
    """An environment that is rewarded for what register allocation costs, unless the user says otherwise.

    Args:
        spill_weight: the weight of a spill.
        reload_weight: the weight of a reload.
        folded_reload_weight: the weight of a reload that is folded into another instruction.
        copy_weight: the weight of a copy.
        options: the arguments of `CompilerEnv`.
    """

    task_type: ClassVar[type[AllocationTask]]
    """The task; the environments set it."""

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
        super().__init__(self.task_type(weights), **options)
        EzPickle.__init__(
            self,
            spill_weight=spill_weight,
            reload_weight=reload_weight,
            folded_reload_weight=folded_reload_weight,
            copy_weight=copy_weight,
            **options,
        )
