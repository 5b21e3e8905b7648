"""Which bytes belong to which decision where inlining and register allocation are decided in one compile.

The code is compiled once more with the same inlining and the register allocator's own choices. What that differs from
clang's own inlining is the inliner's, by `mlgo_gym.episode.credit`. What the episode differs from it is the register
allocator's: one function's registers have nothing to do with another's, so that what a function gained or lost belongs
to its decisions.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from mlgo_gym.corpus.compilation import Compilation
from mlgo_gym.episode.credit import credit
from mlgo_gym.episode.placed_compile import PlacedCompile
from mlgo_gym.llvm.advisors import INLINING
from mlgo_gym.llvm.function_sizes import FunctionSizes, function_sizes, size_changes
from mlgo_gym.session.decision import Decision
from mlgo_gym.session.session import Session
from mlgo_gym.tasks.task import Task


def joint_credit(
    reference: PlacedCompile,
    episode: PlacedCompile,
    inlined: FunctionSizes,
    made: Sequence[tuple[Decision, bytes]],
    own: Sequence[int],
    task: Task,
) -> npt.NDArray[np.float64]:
    """Return what each decision of an episode saved, float64 of shape (number of decisions,), those of `own` alone.

    Inlining decisions share what inlining saved by the rule of `credit()`. What a function's registers saved is shared
    equally by those of its decisions that are not clang's own choice; where there are none, by all of it; and what no
    function's are, by all decisions on registers, or on inlining where there are none.

    Args:
        reference: the compile of clang's own choices.
        episode: the episode, with its inlining decisions.
        inlined: the bytes of each function with the same inlining, and the allocator's own choices.
        made: all decisions of the episode and their answers.
        own: the numbers of those that were the agent's.
        task: the bound task.
    """
    position = {number: at for at, number in enumerate(at for at, (each, _) in enumerate(made) if each.advisor == 0)}
    by_agent = [number for number in own if number in position]
    saved = np.zeros(len(made))
    found = credit(
        reference, PlacedCompile(episode.decisions, inlined), [position[number] for number in by_agent]
    ).bytes
    saved[list(position)] = found
    registers: dict[str, list[int]] = defaultdict(list)
    for number in own:
        if number not in position:
            registers[made[number][0].context].append(number)
    left = inlined.text - episode.text
    for function, change in size_changes(inlined, episode.functions).items():
        numbers = registers.get(function, [])
        sharing = [number for number in numbers if task.default_advice(made[number][0]) != made[number][1]] or numbers
        if sharing:
            saved[sharing] -= change / len(sharing)
            left += change
    if left and own:
        rest = [number for number in own if number not in position] or list(own)
        saved[rest] += left / len(rest)
    return saved


def sizes_of_inlining(
    compilation: Compilation, made: Sequence[tuple[Decision, bytes]], timeout: float
) -> FunctionSizes:
    """Compile with the inlining of an episode and the register allocator's own choices.

    Args:
        compilation: the compile.
        made: all decisions of the episode and their answers.
        timeout: the longest wait for it, in seconds.

    Raises:
        CompilerError: the compile failed.
    """
    answers = [advice for decision, advice in made if decision.advisor == 0]
    with Session(compilation.command, (INLINING,), confined=compilation.confined, limits=compilation.limits) as session:
        session.advise_ahead(answers)
        return function_sizes(session.finish(timeout).object_bytes)
