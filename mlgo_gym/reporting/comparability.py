"""Whether two runs can be compared at all; if not, the first difference that forbids it."""

from __future__ import annotations

from mlgo_gym.errors import MlgoError
from mlgo_gym.evaluation.configuration import Configuration
from mlgo_gym.evaluation.episode_result import DONE
from mlgo_gym.evaluation.module_facts import ModuleFacts
from mlgo_gym.evaluation.result import EvaluationResult

_HARMLESS = ("observation", "reward", "timeout", "trust", "strict", "render_mode", "warm_starts", "preoptimize")
"""Arguments of an environment that change nothing about what a sequence of decisions comes to."""


def check_comparable(first: tuple[str, EvaluationResult], other: tuple[str, EvaluationResult]) -> None:
    """Check that the sizes of two runs mean the same thing.

    Args:
        first: a run, and what to call it.
        other: another run, and what to call it.

    Raises:
        MlgoError: environments, metrics, compilers, modules or their flags differ, or plain clang came to other sizes;
            the text names the first difference.
    """
    difference = first_difference(first[1], other[1])
    if difference:
        raise MlgoError(
            f"{first[0]} and {other[0]} cannot be compared: {difference}; evaluate both on the same modules with the "
            "same compiler and flags"
        )


def first_difference(one: EvaluationResult, other: EvaluationResult) -> str:
    """Return the first reason why two runs cannot be compared, in words; empty where they can."""
    return (
        _other_configuration(one.configuration, other.configuration)
        or _other_modules(one, other)
        or _other_baseline(one, other)
    )


def _other_configuration(one: Configuration, other: Configuration) -> str:
    for name in ("environment", "metric", "clang"):
        was, now = getattr(one, name), getattr(other, name)
        if was != now:
            return f"{name} is {was} in the one and {now} in the other"
    for name in sorted({*one.arguments, *other.arguments} - set(_HARMLESS)):
        pair = one.arguments.get(name), other.arguments.get(name)
        if pair[0] != pair[1]:
            return f"the argument {name} is {pair[0]!r} in the one and {pair[1]!r} in the other"
    return ""


def _other_modules(one: EvaluationResult, other: EvaluationResult) -> str:
    if one.configuration.modules_digest == other.configuration.modules_digest:
        return ""
    for name in sorted({*one.modules, *other.modules} if one.modules and other.modules else ()):
        ours, theirs = one.modules.get(name), other.modules.get(name)
        if ours is None or theirs is None:
            return f"the module {name} is only in the {'other' if ours is None else 'one'}"
        difference = _other_module(ours, theirs)
        if difference:
            return f"the module {name} {difference}"
    was, now = (f"{each.modules} modules of {each.corpus}" for each in (one.configuration, other.configuration))
    return f"the modules are {was} in the one and {now} in the other{', with other contents' * (was == now)}"


def _other_module(ours: ModuleFacts, theirs: ModuleFacts) -> str:
    if ours.digest != theirs.digest:
        return f"has other contents: {ours.digest[:12]} in the one and {theirs.digest[:12]} in the other"
    if ours.flags == theirs.flags:
        return ""
    was, now = set(ours.flags or ()), set(theirs.flags or ())
    if was == now:
        return "has its flags in another order"
    return f"has other flags: {_some(was - now)} only in the one, {_some(now - was)} only in the other"


def _some(flags: set[str]) -> str:
    return " ".join(sorted(flags)) or "none"


def _other_baseline(one: EvaluationResult, other: EvaluationResult) -> str:
    """Return on which module plain clang came to another size: then something else differs that nobody wrote down."""
    metric = one.configuration.metric
    known = _baselines(one, metric)
    for name, size in _baselines(other, metric).items():
        if known.get(name, size) != size:
            return f"plain clang makes {known[name]:g} of {name} in the one and {size:g} in the other"
    return ""


def _baselines(result: EvaluationResult, metric: str) -> dict[str, float]:
    return {each.module: each.measures[metric][1] for each in result.episodes if each.status == DONE}
