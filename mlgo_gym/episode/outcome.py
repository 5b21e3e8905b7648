"""The outcome of an episode: reward and last info from the measurements of a compile, or from its failure."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from mlgo_gym.attribution.credit import credit
from mlgo_gym.attribution.inline_compile import InlineCompile
from mlgo_gym.attribution.joint_credit import joint_credit, sizes_of_inlining
from mlgo_gym.episode.episode import Episode
from mlgo_gym.episode.function_costs import FunctionCosts
from mlgo_gym.episode.setup import Setup
from mlgo_gym.errors import CompilerError
from mlgo_gym.session.coroutine import run_blocking
from mlgo_gym.tasks.measurement import WEIGHTED
from mlgo_gym.tasks.reward import REWARDS, decision_rewards, relative


class EpisodeOutcome(NamedTuple):
    """The outcome of an episode.

    Attributes:
        reward: Reward of the last step.
        truncated: Whether a failure of the compiler ended the episode.
        info: Info of the last step.
    """

    reward: float
    truncated: bool
    info: dict[str, Any]


def costs(setup: Setup, episode: Episode) -> tuple[float, float]:
    """Return the cost of a finished episode by the environment's metric, and the cost of the baseline.

    With weights, the cost of the baseline is 1, and each relative reduction lowers the cost by its weight.
    """
    assert episode.measurement is not None, "the compile has not finished"
    assert episode.baseline is not None, "the baseline is not measured yet"
    pairs = {
        metric: (
            setup.task.outcome(episode.measurement, metric, episode.function),
            setup.task.outcome(episode.baseline, metric, episode.function),
        )
        for metric in setup.weights
    }
    if setup.metric in pairs:
        return pairs[setup.metric]
    return 1.0 - sum(weight * relative(*pairs[metric]) for metric, weight in setup.weights.items()), 1.0


def conclude(setup: Setup, episode: Episode) -> EpisodeOutcome:
    """Return the outcome of an episode whose compile has finished."""
    measurement, baseline = episode.measurement, episode.baseline
    outcome, reference = costs(setup, episode)
    assert measurement is not None
    assert baseline is not None
    info = _counts(episode)
    if measurement.sizes is not None:
        for label, measured in (("", measurement), ("baseline_", baseline)):
            info |= {f"{label}{name}": size for name, size in measured.sizes_by_metric().items()}
    if setup.metric == WEIGHTED:
        info |= {WEIGHTED: outcome, f"baseline_{WEIGHTED}": reference}
    info["reduction"] = relative(outcome, reference)
    info |= setup.task.report(measurement, baseline, episode.function)
    if episode.inline_compile is not None and setup.options.credit:
        info |= _credit(setup, episode, episode.inline_compile, outcome, reference)
    if setup.options.compile_options.echo_reply:
        info["stderr"] = episode.session.stderr
    return EpisodeOutcome(REWARDS[setup.options.reward](outcome, reference), False, info)


def _credit(setup: Setup, episode: Episode, compiled: InlineCompile, outcome: float, baseline: float) -> dict[str, Any]:
    """Return the bytes of each function, and the cost and the reward that are due to each decision of the agent."""
    reference = run_blocking(setup.reference(episode.compilation), setup.timeout)
    assert episode.baseline is not None
    assert episode.baseline.sizes is not None
    if setup.shares_costs:
        changes = FunctionCosts(setup, episode.compilation).changes(reference, compiled)
        every = credit(reference, compiled, episode.agent_indices, changes).saved
    else:
        every = _credit_of_bytes(setup, episode, reference, compiled)
        if setup.metric == WEIGHTED:
            every *= setup.weights["text"] / max(episode.baseline.sizes.text, 1)
    saved = every[episode.agent_indices]
    if len(saved):
        # The plain compile rarely differs from the compile of its own answers; no single decision caused that.
        saved += (baseline - outcome - saved.sum()) / len(saved)
    rewards = decision_rewards(saved, REWARDS[setup.options.reward], outcome, baseline)
    return {
        "credit": tuple(saved.tolist()),
        "rewards": tuple(rewards.tolist()),
        "function_sizes": compiled.functions,
        "baseline_function_sizes": reference.functions,
    }


def _credit_of_bytes(
    setup: Setup, episode: Episode, reference: InlineCompile, compiled: InlineCompile
) -> npt.NDArray[np.float64]:
    if len(setup.task.advisors) == 1:
        return credit(reference, compiled, episode.agent_indices).saved
    answered = episode.answered
    inlined = sizes_of_inlining(episode.compilation, answered, setup.timeout)
    return joint_credit(reference, compiled, inlined, answered, episode.agent_indices, setup.task)


def fail(setup: Setup, episode: Episode, error: CompilerError) -> EpisodeOutcome:
    """Return the outcome of an episode whose compile failed."""
    info = _counts(episode)
    info["error"] = describe_failure(error)
    reward = setup.options.error_reward or 0.0
    if setup.options.credit:
        info["rewards"] = (reward / max(episode.decisions, 1),) * episode.decisions
    return EpisodeOutcome(reward, True, info)


def describe_failure(error: CompilerError) -> dict[str, Any]:
    """Return the entries of `info["error"]`."""
    description = {
        "kind": error.kind,
        "message": error.message,
        "exit_status": error.exit_status,
        "stderr": error.stderr,
    }
    return description if error.reproducer is None else {**description, "reproducer": error.reproducer}


def _counts(episode: Episode) -> dict[str, Any]:
    info = {
        "module": episode.compilation.module.name,
        "decisions": episode.decisions,
        "handed_over": episode.handed_over,
    }
    if episode.function is not None:
        info["context"] = episode.function
    return info
