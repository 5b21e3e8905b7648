"""`CompilerEnv(gymnasium.Env)`: an episode is one compile, an observation one decision; the same for every task."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, TypedDict

import gymnasium as gym
import numpy as np
import numpy.typing as npt
from gymnasium.utils import EzPickle

from mlgo_gym.compilation import Compilation, plan
from mlgo_gym.corpus.corpus import Corpus, open_corpus
from mlgo_gym.corpus.module import Module
from mlgo_gym.decision_count import known_decisions
from mlgo_gym.episode import Episode
from mlgo_gym.errors import ActionError, CompilerError, CorpusError, MlgoError
from mlgo_gym.probe import probe
from mlgo_gym.render import render_text
from mlgo_gym.reward import REWARDS
from mlgo_gym.task import OBSERVATIONS, SIZE_METRICS, Task
from mlgo_gym.toolchain import Toolchain, find_toolchain

_ECHO = ("-mllvm", "-interactive-model-runner-echo-reply")
"""Makes clang print the advice that it receives (llvm/lib/Analysis/InteractiveModelRunner.cpp)."""

_MOST_FAILURES = 10
"""A reset that samples gives up after so many modules that the compiler fails on."""


class EnvOptions(TypedDict, total=False):
    """The arguments that every environment takes; `CompilerEnv` says what they mean."""

    corpus: str | Corpus
    clang: str | None
    observation: str
    reward: str
    metric: str
    max_decisions: int | None
    timeout: float
    strict: bool
    on_error: str
    error_reward: float
    flags: Sequence[str] | None
    extra_flags: Sequence[str]
    echo_reply: bool
    render_mode: str | None


class CompilerEnv(gym.Env[Any, Any], EzPickle):
    """The loop that is the same for every task; the classes in `mlgo_gym.envs` are what users make.

    `reset()` starts one compile of one module and returns its first decision; `step()` answers it and returns the
    next. The episode ends when clang has ended: `terminated`, and the reward compares the object file with that of a
    plain compile by the same clang with the same flags. Intermediate rewards are 0.

    Args:
        corpus: which modules: `"builtin"`, a dataset's name, a folder, a `.bc` file, or several with commas between
            them (see `mlgo_gym.corpus.open_corpus`); or a `Corpus`.
        clang: which compiler: a path or a name on `PATH`, version 17 or newer. Default: `$MLGO_CLANG`, else the
            bundled one.
        observation: `"flat"`, one float32 vector named by `feature_names`, or `"dict"`, the raw tensors by name.
        reward: `"relative"`, `1 - size / baseline`; `"bytes"`, `baseline - size`; `"log"`, the logarithm of
            `baseline / size`.
        metric: which size: `"text"`, the executable sections; `"llvm-size"`, the first column of llvm-size;
            `"object"`, the file. In bytes.
        max_decisions: after so many decisions clang's own choices are taken to the end of the compile, so the reward
            is real. Default: no limit.
        timeout: how long clang may compute without a sign of life, in seconds.
        strict: raise `ActionError` on an illegal action, instead of taking clang's own choice and saying so in
            `info["illegal_action"]`.
        on_error: what a failing compile does: `"truncate"` ends the episode with `truncated`, `error_reward` and
            `info["error"]`; `"raise"` raises `CompilerError`.
        error_reward: the reward of a failed compile.
        flags: how modules without recorded flags are compiled; driver flags, or `-cc1` and its flags. Default:
            `-Oz -fPIC`.
        extra_flags: `-cc1` arguments for every compile, also the baseline's.
        echo_reply: let clang print the advice it received; at the end `info["stderr"]` has it.
        render_mode: `"ansi"`, or None.

    Attributes:
        feature_names: the name of each element of a flat observation.
        toolchain: the compiler.
        task: the task, bound to the compiler's headers.
        corpus: the modules; opened at first use.

    Raises:
        ToolchainError: no usable compiler, or one that cannot do this task.
        MlgoError: an argument is not one of those above.
    """

    metadata: dict[str, Any] = {"render_modes": ["ansi"], "render_fps": 10}  # noqa: RUF012 - gymnasium declares it so

    def __init__(
        self,
        task_type: type[Task],
        *,
        corpus: str | Corpus = "builtin",
        clang: str | None = None,
        observation: str = "flat",
        reward: str = "relative",
        metric: str = "text",
        max_decisions: int | None = None,
        timeout: float = 60.0,
        strict: bool = False,
        on_error: str = "truncate",
        error_reward: float = 0.0,
        flags: Sequence[str] | None = None,
        extra_flags: Sequence[str] = (),
        echo_reply: bool = False,
        render_mode: str | None = None,
    ) -> None:
        _check_choice("observation", observation, OBSERVATIONS)
        _check_choice("reward", reward, REWARDS)
        _check_choice("metric", metric, SIZE_METRICS)
        _check_choice("on_error", on_error, ("truncate", "raise"))
        _check_choice("render_mode", render_mode, (None, *self.metadata["render_modes"]))
        if max_decisions is not None and max_decisions < 1:
            raise MlgoError(f"max_decisions must be at least 1 or None, found {max_decisions}")
        if not timeout > 0:
            raise MlgoError(f"timeout must be a positive number of seconds, found {timeout}")
        for name, value in (("flags", flags), ("extra_flags", extra_flags)):
            if isinstance(value, str):
                raise MlgoError(f"{name} must be a list of words, found the string {value!r}: use {value.split()!r}")
        self.render_mode = render_mode
        self.toolchain: Toolchain = find_toolchain(clang)
        task_flags = task_type.flags(self.toolchain)
        headers = [probe(self.toolchain, advisor, task_flags).header for advisor in task_type.advisors]
        self.task = task_type(headers, observation)
        self.observation_space = self.task.observation_space
        self.action_space = self.task.action_space
        self.feature_names = self.task.feature_names
        self._corpus = corpus
        self._reward = REWARDS[reward]
        self._metric = metric
        self._max_decisions = max_decisions
        self._timeout = float(timeout)
        self._strict = strict
        self._raise_errors = on_error == "raise"
        self._error_reward = float(error_reward)
        self._flags = None if flags is None else tuple(flags)
        self._extra_flags = (*task_flags, *extra_flags, *(_ECHO if echo_reply else ()))
        self._echo = echo_reply
        self._episode: Episode | None = None
        self._module: Module | None = None
        self._empty: set[str] = set()
        self._last_action: Any = None

    @cached_property
    def corpus(self) -> Corpus:
        """The modules that episodes are sampled from; opened, and fetched or compiled, at first use."""
        return open_corpus(self._corpus, toolchain=self.toolchain, flags=self._flags)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Start the compile of a module and return its first decision.

        Args:
            seed: seeds the sampling of modules.
            options: `{"module": name}` chooses the module; without it one is sampled among those with a decision.

        Returns:
            The observation, and `info`: `module`, `context` (the function, for register allocation), `decision` (the
            number of the decision, from 0), `default_action` (clang's own choice), `action_mask` where the task has
            one, and `skipped` (modules passed over because the compiler failed on them, with the reason) if any.

        Raises:
            CorpusError: the module is unknown or has no decision, or no module of the corpus has one.
            CompilerError: the compile of the named module fails before its first decision; when sampling, after ten
                such modules, or at the first with `on_error="raise"`.
            MlgoError: unknown options.
        """
        super().reset(seed=seed)
        self._end_episode()
        unknown = set(options or ()) - {"module"}
        if unknown:
            raise MlgoError(f"reset() knows the option 'module', found {', '.join(sorted(map(repr, unknown)))}")
        name = (options or {}).get("module")
        if name is not None:
            module = self.corpus.module(name)
            if not self._begin(module):
                raise CorpusError(
                    f"module {name!r} of corpus {self.corpus.name!r} has no {self.task.name} decision to learn from: "
                    "choose another, or let reset() sample one"
                )
            return self._observe()
        return self._sample()

    def _sample(self) -> tuple[Any, dict[str, Any]]:
        skipped: dict[str, str] = {}
        rejected: set[int] = set()
        corpus = self.corpus
        while len(rejected) < len(corpus):
            index = int(self.np_random.integers(len(corpus)))
            if index in rejected:
                continue
            module = corpus[index]
            try:
                if self._begin(module):
                    observation, info = self._observe()
                    if skipped:
                        info["skipped"] = skipped
                    return observation, info
            except CompilerError as error:
                skipped[module.name] = str(error)
                if self._raise_errors or len(skipped) >= min(_MOST_FAILURES, len(corpus)):
                    raise
            rejected.add(index)
        failures = f"; the compiler failed on {len(skipped)} of them" if skipped else ""
        raise CorpusError(
            f"none of the {len(corpus)} modules of corpus {corpus.name!r} has a {self.task.name} decision{failures}"
        )

    def _begin(self, module: Module) -> bool:
        """Start a module's compile and wait for its first decision; return whether there is one."""
        if module.name in self._empty:
            return False
        compilation = self.compilation(module)
        if known_decisions(compilation, self.task) == 0:
            self._empty.add(module.name)
            return False
        self._module = module
        self._episode = episode = Episode(compilation, self.task, max_decisions=self._max_decisions)
        try:
            episode.wait(self._timeout)
        except MlgoError:
            self._end_episode()
            raise
        if episode.decision is None:
            self._empty.add(module.name)
            self._end_episode()
            return False
        self._last_action = None
        return True

    def compilation(self, module: Module) -> Compilation:
        """Return how this environment compiles a module, but for channels and output."""
        return plan(module, self.toolchain, self._extra_flags)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Answer the current decision and return the next, or the end.

        Returns:
            Observation, reward, terminated, truncated, info. At the end `info` has `text_size`,
            `baseline_text_size` and their like for `llvm_size` and `object_size` in bytes, `reduction` (the relative
            reduction of the metric), and `decisions` (how many the agent took; `handed_over`: how many clang took
            after the budget). After a failure it has `error`: kind, exit status, clang's last words.

        Raises:
            ActionError: no decision waits (call `reset()`), or, with `strict`, the action is illegal.
            CompilerError: the compile failed and `on_error="raise"`.
        """
        episode = self._episode
        if episode is None or episode.decision is None:
            raise ActionError("no decision waits for an action: the episode is over or never began; call reset()")
        decision = episode.decision
        advice = self.task.encode(decision, action)
        illegal = advice is None
        if advice is None:
            if self._strict:
                raise ActionError(self._refusal(action))
            advice = self.task.default_advice(decision)
            action = self.task.default_action(decision)
        self._last_action = action
        try:
            episode.answer(advice)
            episode.wait(self._timeout)
        except CompilerError as error:
            result = self._failed(error)
        else:
            if episode.decision is not None:
                observation, info = self._observe()
                result = (observation, 0.0, False, False, info)
            else:
                result = self._finished(episode)
        if illegal:
            result[4]["illegal_action"] = True
        return result

    def _refusal(self, action: Any) -> str:
        mask = self.action_masks()
        legal = self.action_space if mask is None else np.flatnonzero(mask).tolist()
        return f"action {action!r} is not legal at this decision; legal are {legal}"

    def _observe(self) -> tuple[Any, dict[str, Any]]:
        episode = self._episode
        assert episode is not None
        assert episode.decision is not None
        decision, task = episode.decision, self.task
        info = {
            "module": episode.compilation.module.name,
            "context": decision.context,
            "decision": episode.decisions,
            "default_action": task.default_action(decision),
        }
        mask = task.action_mask(decision)
        if mask is not None:
            info["action_mask"] = mask
        return task.observe(decision), info

    def _finished(self, episode: Episode) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        measurement, baseline = episode.measurement, episode.baseline
        assert measurement is not None
        assert baseline is not None
        outcome = self.task.outcome(measurement, self._metric)
        reference = self.task.outcome(baseline, self._metric)
        info = self._last_info(episode)
        for label, measured in (("", measurement), ("baseline_", baseline)):
            info[f"{label}text_size"] = measured.sizes.text
            info[f"{label}llvm_size"] = measured.sizes.llvm_size
            info[f"{label}object_size"] = measured.sizes.object
        info["reduction"] = REWARDS["relative"](outcome, reference)
        if self._echo:
            info["stderr"] = episode.session.stderr
        reward = self._reward(outcome, reference)
        self._end_episode()
        return self.task.final_observation(), reward, True, False, info

    def _failed(self, error: CompilerError) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        episode = self._episode
        assert episode is not None
        info = self._last_info(episode)
        self._end_episode()
        if self._raise_errors:
            raise error
        info["error"] = {
            "kind": error.kind,
            "message": error.message,
            "exit_status": error.exit_status,
            "stderr": error.stderr,
        }
        return self.task.final_observation(), self._error_reward, False, True, info

    @staticmethod
    def _last_info(episode: Episode) -> dict[str, Any]:
        return {
            "module": episode.compilation.module.name,
            "decisions": episode.decisions,
            "handed_over": episode.handed_over,
        }

    def action_masks(self) -> npt.NDArray[np.int8] | None:
        """Return which actions are legal at the current decision, int8 of shape (number of actions,); None: all."""
        episode = self._episode
        if episode is None or episode.decision is None:
            return None
        return self.task.action_mask(episode.decision)

    def render(self) -> str | None:
        """Return the current decision for a person to read, with `render_mode="ansi"`; else None."""
        if self.render_mode is None:
            return None
        episode = self._episode
        if episode is None or episode.decision is None:
            return "no decision waits: the episode is over or never began"
        module = episode.compilation.module.name
        return render_text(self.task, module, episode.decisions, episode.decision, self._last_action)

    def _end_episode(self) -> None:
        if self._episode is not None:
            self._episode.close()
            self._episode = None

    def close(self) -> None:
        """End the current compile, if there is one. Idempotent."""
        self._end_episode()
        super().close()


def _check_choice(name: str, value: object, choices: Any) -> None:
    if value not in choices:
        raise MlgoError(f"{name} must be one of {', '.join(map(repr, choices))}; found {value!r}")
