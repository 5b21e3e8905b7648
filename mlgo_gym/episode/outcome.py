"""How an episode ended: from the measurements of a compile, or from its failure, to a reward and an info."""

from __future__ import annotations

from typing import Any, NamedTuple

from mlgo_gym.episode.credit import credit
from mlgo_gym.episode.episode import Episode
from mlgo_gym.episode.joint_credit import joint_credit, sizes_of_inlining
from mlgo_gym.episode.placed_compile import PlacedCompile
from mlgo_gym.episode.setup import Setup
from mlgo_gym.errors import CompilerError
from mlgo_gym.tasks.reward import REWARDS


class Ending(NamedTuple):
    """How an episode ended.

    Attributes:
        reward: the reward of its last step.
        truncated: whether a failure of the compiler ended it.
        info: the info of its last step.
    """

    reward: float
    truncated: bool
    info: dict[str, Any]


def costs(setup: Setup, episode: Episode) -> tuple[float, float]:
    """Return what an episode that is over cost by its environment's metric, and what clang's own heuristic costs."""
    assert episode.measurement is not None, "the compile is not over"
    assert episode.baseline is not None, "the baseline is not there yet"
    task, metric, function = setup.task, setup.metric, episode.function
    return (
        task.outcome(episode.measurement, metric, function),
        task.outcome(episode.baseline, metric, function),
    )


def conclude(setup: Setup, episode: Episode) -> Ending:
    """Return the ending of an episode whose compile is over."""
    measurement, baseline = episode.measurement, episode.baseline
    outcome, reference = costs(setup, episode)
    assert measurement is not None
    assert baseline is not None
    info = _counts(episode)
    if measurement.sizes is not None:
        for label, measured in (("", measurement), ("baseline_", baseline)):
            info |= {f"{label}{name}": size for name, size in measured.named_sizes().items()}
    info["reduction"] = REWARDS["relative"](outcome, reference)
    info |= setup.task.report(measurement, baseline, episode.function)
    if episode.placed is not None and setup.settings.credit and episode.functions is None:
        info |= _credit(setup, episode, episode.placed)
    if setup.settings.echo_reply:
        info["stderr"] = episode.session.stderr
    return Ending(REWARDS[setup.reward](outcome, reference), False, info)


def _credit(setup: Setup, episode: Episode, placed: PlacedCompile) -> dict[str, Any]:
    """Return the bytes of each function, and of each of the agent's decisions, against clang's own choices."""
    reference = setup.reference(episode.compilation)
    assert episode.baseline is not None
    assert episode.baseline.sizes is not None
    if len(setup.task.advisors) == 1:
        every = credit(reference, placed, episode.own).bytes
    else:
        made = episode.made
        inlined = sizes_of_inlining(episode.compilation, made, setup.settings.timeout)
        every = joint_credit(reference, placed, inlined, made, episode.own, setup.task)
    saved = every[episode.own]
    if len(saved):
        # Rarely a plain compile is another than that of its own answers: that is no single decision's doing.
        saved += (episode.baseline.sizes.text - reference.text) / len(saved)
    return {
        "credit": tuple(saved.tolist()),
        "function_sizes": placed.functions,
        "baseline_function_sizes": reference.functions,
    }


def fail(setup: Setup, episode: Episode, error: CompilerError) -> Ending:
    """Return the ending of an episode whose compile failed."""
    info = _counts(episode)
    info["error"] = describe_failure(error)
    return Ending(setup.settings.error_reward, True, info)


def describe_failure(error: CompilerError) -> dict[str, Any]:
    """Return what `info["error"]` says of a compile that failed."""
    told = {
        "kind": error.kind,
        "message": error.message,
        "exit_status": error.exit_status,
        "stderr": error.stderr,
    }
    return told if error.reproducer is None else {**told, "reproducer": error.reproducer}


def _counts(episode: Episode) -> dict[str, Any]:
    info = {
        "module": episode.compilation.module.name,
        "decisions": episode.decisions,
        "handed_over": episode.handed_over,
    }
    if episode.function is not None:
        info["context"] = episode.function
    return info
