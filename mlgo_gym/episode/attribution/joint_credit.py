"""Credit where one compile decides both inlining and register allocation.

One more compile repeats the inlining with the register allocator's own choices. The difference between that compile and
clang's own inlining is credited to inlining decisions (`mlgo_gym.episode.attribution.credit`). The difference between
the episode and that compile is credited to allocation decisions, function by function.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from mlgo_gym.compiler.decision import Decision
from mlgo_gym.corpus.compilation import Compilation
from mlgo_gym.episode.attribution.credit import credit
from mlgo_gym.episode.attribution.inline_compile import InlineCompile
from mlgo_gym.llvm.advisors import INLINING
from mlgo_gym.llvm.function_sizes import FunctionSizes, function_sizes, size_changes
from mlgo_gym.tasks.task import Task


def joint_credit(
    reference: InlineCompile,
    episode: InlineCompile,
    inlined: FunctionSizes,
    answered: Sequence[tuple[Decision, bytes]],
    eligible: Sequence[int],
    task: Task,
) -> npt.NDArray[np.float64]:
    """Return the credit of each decision of an episode, float64 of shape (decisions,).

    Inlining decisions share the effect of inlining as in `credit()`. The allocation decisions of a function that differ
    from clang's own choices share its change equally; if none differs, all of them do. The remaining change is shared
    equally among the allocation decisions, or among the inlining decisions if there are no others.

    Args:
        reference: The compile of clang's own choices.
        episode: The compile of the episode.
        inlined: Bytes of each function with the episode's inlining and the allocator's own choices.
        answered: All decisions of the episode, each with its advice.
        eligible: Indices of the decisions that can have credit; the others get 0.
        task: The bound task.
    """
    inlining = [index for index, (decision, _) in enumerate(answered) if decision.advisor == 0]
    position = {index: at for at, index in enumerate(inlining)}
    saved = np.zeros(len(answered))
    by_inlining = credit(
        reference,
        InlineCompile(episode.decisions, inlined),
        [position[index] for index in eligible if index in position],
    )
    saved[inlining] = by_inlining.saved
    allocating: dict[str, list[int]] = defaultdict(list)
    for index in eligible:
        if index not in position:
            allocating[answered[index][0].context].append(index)
    left = inlined.text - episode.text
    for function, change in size_changes(inlined, episode.functions).items():
        indices = allocating.get(function, [])
        sharing = [each for each in indices if task.default_advice(answered[each][0]) != answered[each][1]] or indices
        if sharing:
            saved[sharing] -= change / len(sharing)
            left += change
    if left and eligible:
        rest = [index for index in eligible if index not in position] or list(eligible)
        saved[rest] += left / len(rest)
    return saved


def sizes_of_inlining(
    compilation: Compilation, answered: Sequence[tuple[Decision, bytes]], timeout: float
) -> FunctionSizes:
    """Compile with an episode's inlining and the register allocator's own choices; return the bytes by function.

    Raises:
        CompilerError: The compile failed.
    """
    with compilation.session((INLINING,)) as session:
        session.advise_ahead([advice for decision, advice in answered if decision.advisor == 0])
        return function_sizes(session.finish(timeout).object_bytes)
