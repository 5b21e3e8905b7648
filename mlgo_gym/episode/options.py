"""The arguments that every environment takes, and their check."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypedDict

from mlgo_gym.corpus.corpus import Corpus
from mlgo_gym.errors import MlgoError
from mlgo_gym.llvm.advisors import INLINING
from mlgo_gym.tasks.reward import REWARDS
from mlgo_gym.tasks.task import OBSERVATIONS, Task

RENDER_MODES = ("ansi",)


class EnvOptions(TypedDict, total=False):
    """The arguments that every environment takes; `CompilerEnv` says what they mean."""

    corpus: str | Corpus
    clang: str | None
    observation: str
    reward: str
    metric: str | None
    max_decisions: int | None
    timeout: float
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
    credit: bool
    trust: bool
    render_mode: str | None


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
    credit: bool = False
    trust: bool = False
    render_mode: str | None = None

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
        if self.reward in task.metrics and self.metric not in (None, self.reward):
            raise MlgoError(f"reward={self.reward!r} names a metric already, and metric={self.metric!r} another")
        if self.max_decisions is not None and self.max_decisions < 1:
            raise MlgoError(f"max_decisions must be at least 1 or None, found {self.max_decisions}")
        if not self.timeout > 0:
            raise MlgoError(f"timeout must be a positive number of seconds, found {self.timeout}")
        for name, value in (("flags", self.flags), ("extra_flags", self.extra_flags)):
            if isinstance(value, str):
                raise MlgoError(f"{name} must be a list of words, found the string {value!r}: use {value.split()!r}")
        if self.preoptimize and not task.after_optimization:
            raise MlgoError(
                f"preoptimize=True is for decisions that come after the optimiser; {task.name} decides within it"
            )
        if self.credit and task.advisors != (INLINING,):
            raise MlgoError(f"credit=True is for the decisions of inlining alone; {task.name} decides otherwise")
        if self.verify_preoptimized and not self.preoptimizes(task):
            raise MlgoError("verify_preoptimized=True needs preoptimize=True")

    def follows_inlining(self, task: Task) -> bool:
        """Return whether sessions follow in which functions clang inlines."""
        return (self.contexts or self.credit) and INLINING in task.advisors

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
