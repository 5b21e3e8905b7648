"""Checks whether the results of two evaluations can be compared."""

from __future__ import annotations

from collections.abc import Iterator

from mlgo_gym.errors import MlgoError
from mlgo_gym.evaluation.configuration import effective_arguments
from mlgo_gym.evaluation.episode_result import DONE
from mlgo_gym.evaluation.result import EvaluationResult

_POLICY_INPUTS = frozenset({"callee_features", "credit", "error_reward", "observation", "reward", "strict"})
"""Arguments of environments that change a policy's input, but not the size that a sequence of actions gives."""


def check_comparable(first: tuple[str, EvaluationResult], other: tuple[str, EvaluationResult]) -> None:
    """Check that the metrics of two evaluations, each with its name, can be compared.

    Raises:
        MlgoError: Environments, metrics, compilers, modules, flags or baselines differ; the message has the first
            difference.
    """
    for difference in differences(first[1], other[1]):
        raise MlgoError(
            f"{first[0]} and {other[0]} cannot be compared: {difference}; evaluate both on the same modules with the "
            "same compiler and flags"
        )


def differences(first: EvaluationResult, other: EvaluationResult) -> Iterator[str]:
    """Yield the reasons why two evaluations cannot be compared."""
    before, after = first.configuration, other.configuration
    for name in ("environment", "metric", "clang"):
        ours, theirs = getattr(before, name), getattr(after, name)
        if ours != theirs:
            yield f"{name} is {ours} in the first and {theirs} in the second"
    arguments = effective_arguments(before.arguments), effective_arguments(after.arguments)
    for name in sorted({*arguments[0], *arguments[1]} - _POLICY_INPUTS):
        ours, theirs = (each.get(name) for each in arguments)
        if ours != theirs:
            yield f"the argument {name} is {ours!r} in the first and {theirs!r} in the second"
    if before.modules_digest != after.modules_digest:
        yield from _module_differences(first, other)
    # Another baseline points to a difference that no configuration records.
    metric = before.metric
    baselines = _baselines(first, metric)
    for name, value in _baselines(other, metric).items():
        if baselines.get(name, value) != value:
            yield f"plain clang's {metric} of {name} is {baselines[name]:g} in the first and {value:g} in the second"


def _module_differences(first: EvaluationResult, other: EvaluationResult) -> Iterator[str]:
    for name in sorted({*first.modules, *other.modules} if first.modules and other.modules else ()):
        ours, theirs = first.modules.get(name), other.modules.get(name)
        if ours is None or theirs is None:
            yield f"the module {name} is only in the {'second' if ours is None else 'first'}"
        elif ours.digest != theirs.digest:
            digests = f"{ours.digest[:12]} in the first and {theirs.digest[:12]} in the second"
            yield f"the module {name} has other contents: {digests}"
        elif ours.flags != theirs.flags:
            yield f"the module {name} has {_flags_difference(set(ours.flags or ()), set(theirs.flags or ()))}"
    corpora = [f"{each.configuration.modules} modules of {each.configuration.corpus}" for each in (first, other)]
    same_names = ", with other contents" * (corpora[0] == corpora[1])
    yield f"the modules are {corpora[0]} in the first and {corpora[1]} in the second{same_names}"


def _flags_difference(ours: set[str], theirs: set[str]) -> str:
    if ours == theirs:
        return "its flags in another order"
    first, second = (" ".join(sorted(only)) or "none" for only in (ours - theirs, theirs - ours))
    return f"other flags: {first} only in the first, {second} only in the second"


def _baselines(result: EvaluationResult, metric: str) -> dict[str, float]:
    return {each.module: each.metrics[metric][1] for each in result.episodes if each.status == DONE}
