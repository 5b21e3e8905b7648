"""The arguments that every environment takes, and their check."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from difflib import get_close_matches
from typing import Any, TypedDict

from mlgo_gym.corpus.corpus import Corpus
from mlgo_gym.corpus.order import ORDERS
from mlgo_gym.errors import MlgoError, UnknownArgumentError
from mlgo_gym.llvm.advisors import INLINING
from mlgo_gym.session.limits import MEMORY_GIB, PROCESSOR_SECONDS, Limits
from mlgo_gym.tasks.reward import REWARDS
from mlgo_gym.tasks.task import OBSERVATIONS, Task

RENDER_MODES = ("ansi", "rgb_array", "human")

INFOS = ("full", "numeric")
"""The forms of an info."""


class EnvOptions(TypedDict, total=False):
    """The arguments that every environment takes; `CompilerEnv` says what they mean."""

    corpus: str | Corpus
    clang: str | None
    observation: str
    reward: str
    metric: str | None
    max_decisions: int | None
    timeout: float
    memory_limit: float | None
    cpu_limit: float | None
    strict: bool
    on_error: str
    error_reward: float
    flags: Sequence[str] | None
    extra_flags: Sequence[str]
    echo_reply: bool
    preoptimize: bool | None
    verify_preoptimized: bool
    scope: str
    warm_resets: bool | None
    contexts: bool
    calls: bool
    credit: bool
    trust: bool
    render_mode: str | None
    order: str
    module_weights: Mapping[str, float] | None
    info: str


@dataclass(frozen=True, slots=True)
class Settings:
    """Checked arguments; the fields are those of `EnvOptions`."""

    corpus: str | Corpus = "builtin"
    clang: str | None = None
    observation: str = "flat"
    reward: str = "relative"
    metric: str | None = None
    max_decisions: int | None = None
    timeout: float = 60.0
    memory_limit: float | None = MEMORY_GIB
    cpu_limit: float | None = PROCESSOR_SECONDS
    strict: bool = False
    on_error: str = "truncate"
    error_reward: float = 0.0
    flags: Sequence[str] | None = None
    extra_flags: Sequence[str] = ()
    echo_reply: bool = False
    preoptimize: bool | None = None
    verify_preoptimized: bool = False
    scope: str = "module"
    warm_resets: bool | None = None
    contexts: bool = False
    calls: bool = False
    credit: bool = False
    trust: bool = False
    render_mode: str | None = None
    order: str = "random"
    module_weights: Mapping[str, float] | None = None
    info: str = "full"

    @classmethod
    def of(cls, options: Mapping[str, Any], own: Iterable[str] = ()) -> Settings:
        """Return settings with the given arguments.

        Args:
            options: the arguments by name.
            own: the names of further arguments that the environment takes.

        Raises:
            UnknownArgumentError: an argument has another name than those that there are.
        """
        names = [field.name for field in fields(cls)]
        for name in options:
            if name not in names:
                known = sorted({*names, *own})
                close = get_close_matches(name, known, n=1, cutoff=0.6)
                hint = f": did you mean {close[0]}?" if close else ";"
                # TorchRL tries `frameskip`, and looks for these words before it tries without.
                raise UnknownArgumentError(
                    f"unexpected keyword argument {name!r}{hint} The arguments are {', '.join(known)}"
                )
        return cls(**options)

    def check(self, task: Task) -> None:
        """Check every argument against what a task can do.

        Raises:
            MlgoError: an argument is none of those that are possible.
        """
        _check_choice("observation", self.observation, OBSERVATIONS)
        _check_choice("reward", self.reward, (*REWARDS, *task.metrics))
        _check_choice("metric", self.metric, (None, *task.metrics))
        _check_choice("on_error", self.on_error, ("truncate", "raise"))
        _check_choice("scope", self.scope, ("module", "function") if task.has_contexts else ("module",))
        _check_choice("render_mode", self.render_mode, (None, *RENDER_MODES))
        _check_choice("info", self.info, INFOS)
        _check_choice("order", self.order, ORDERS)
        self._check_weights()
        if self.reward in task.metrics and self.metric not in (None, self.reward):
            raise MlgoError(f"reward={self.reward!r} names a metric already, and metric={self.metric!r} another")
        if self.max_decisions is not None and self.max_decisions < 1:
            raise MlgoError(f"max_decisions must be at least 1 or None, found {self.max_decisions}")
        if not self.timeout > 0:
            raise MlgoError(f"timeout must be a positive number of seconds, found {self.timeout}")
        for limit, most in (("memory_limit", self.memory_limit), ("cpu_limit", self.cpu_limit)):
            if most is not None and not most > 0:
                raise MlgoError(f"{limit} must be a positive number or None, found {most}")
        for name, value in (("flags", self.flags), ("extra_flags", self.extra_flags)):
            if isinstance(value, str):
                raise MlgoError(f"{name} must be a list of words, found the string {value!r}: use {value.split()!r}")
        if self.preoptimize and not task.after_optimization:
            raise MlgoError(
                f"preoptimize=True is for decisions that come after the optimiser; {task.name} decides within it"
            )
        for name, asked in (("credit", self.credit), ("calls", self.calls)):
            if asked and INLINING not in task.advisors:
                raise MlgoError(f"{name}=True is for environments in which calls are inlined; {task.name} has none")
        if self.verify_preoptimized and not self.preoptimizes(task):
            raise MlgoError("verify_preoptimized=True needs preoptimize=True")

    @property
    def limits(self) -> Limits:
        """How much one compile may take."""
        return Limits(self.memory_limit, self.cpu_limit)

    def follows_inlining(self, task: Task) -> bool:
        """Return whether sessions follow in which functions clang inlines."""
        followed = self.contexts or self.calls or self.credit or self.scope == "function"
        return followed and INLINING in task.advisors

    def _check_weights(self) -> None:
        weights = self.module_weights
        if weights is None:
            return
        if self.order != "random":
            raise MlgoError(
                f"module_weights are for order='random'; with {self.order!r} each module comes once a round"
            )
        if not isinstance(weights, Mapping) or not all(
            isinstance(weight, (int, float)) and weight >= 0 for weight in weights.values()
        ):
            raise MlgoError(f"module_weights must be numbers of at least 0 by globs of module names, found {weights!r}")

    def resets_warm(self, task: Task) -> bool:
        """Return whether clangs wait at the first decisions of modules, to be copied for further episodes.

        That wins where most of a compile comes before its first decision, which optimising once takes away as well.
        """
        if self.warm_resets is not None:
            return self.warm_resets
        return task.after_optimization and not self.preoptimizes(task)

    def preoptimizes(self, task: Task) -> bool:
        """Return whether modules are optimised once, and episodes only generate code."""
        return task.after_optimization if self.preoptimize is None else self.preoptimize


def _check_choice(name: str, value: object, choices: Iterable[object]) -> None:
    if value not in choices:
        raise MlgoError(f"{name} must be one of {', '.join(map(repr, choices))}; found {value!r}")


def keyword_arguments(env_type: type) -> list[str]:
    """Return the names of the arguments that a kind of environment takes beside those that all take."""
    parameters = inspect.signature(env_type).parameters.values()
    return [parameter.name for parameter in parameters if parameter.kind is inspect.Parameter.KEYWORD_ONLY]
