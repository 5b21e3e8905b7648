"""In which order episodes take the modules of a corpus: at random, weighted if need be, or each in its turn."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from mlgo_gym.corpus.modules import ENDLESS
from mlgo_gym.errors import CorpusError

ORDERS = ("random", "shuffle", "cycle")
"""`random` draws among all each time; `shuffle` takes each once, then shuffles again; `cycle` keeps their order."""


@dataclass(slots=True)
class Turn:
    """How far one environment has come in the order; it goes along with the random generator that it draws with.

    Attributes:
        first: the position of the first module of this environment's share.
        step: how far apart the modules of its share are: the number of environments that go together.
        left: the positions of modules that are still to come, the next one last; none before the first.
    """

    first: int = 0
    step: int = 1
    left: list[int] = field(default_factory=list)

    def restarted(self) -> Turn:
        """Return the turn of an environment with the same share before its first module."""
        return Turn(self.first, self.step)

    def copy(self) -> Turn:
        """Return an independent copy."""
        return Turn(self.first, self.step, self.left.copy())


class ModuleOrder:
    """Says which module comes next.

    Args:
        names: the modules' names.
        order: one of `ORDERS`.
        weights: with `random`, how much likelier than by a weight of 1 modules are, by a glob of their names, `*` also
            matching slashes; of several that match, the first counts, and where none does, 1.

    Raises:
        CorpusError: a weight fits no module, or leaves none; or the corpus has no end, and can only be drawn from.
    """

    def __init__(self, names: Sequence[str], order: str = "random", weights: Mapping[str, float] | None = None) -> None:
        self._count = len(names)
        self._order = order
        if self._count >= ENDLESS and (order == "shuffle" or weights):
            raise CorpusError(
                "a corpus without an end can neither be shuffled nor weighted; give it a number of programs"
            )
        self._weights = _weigh(names, weights) if weights else None

    def draw(self, np_random: np.random.Generator, turn: Turn, drawn: Set[int]) -> int | None:
        """Return the position of the next module.

        Args:
            np_random: draws, where chance has a say.
            turn: how far the environment has come; it goes on from there.
            drawn: positions that are not to come (again).

        Returns:
            The position, or None where nothing is left.
        """
        if self._order == "random":
            return self._draw(np_random, drawn)
        share = range(turn.first % self._count, self._count, turn.step)
        if len(drawn) >= len(share):
            return None
        while True:
            if not turn.left:
                turn.left = [share[0]] if self._order == "cycle" else np_random.permutation(share).tolist()
            position = turn.left.pop()
            if self._order == "cycle":
                turn.left.append(position + turn.step if position + turn.step < self._count else share[0])
            if position not in drawn:
                return position

    def _draw(self, np_random: np.random.Generator, drawn: Set[int]) -> int | None:
        if self._weights is None:
            while len(drawn) < self._count:
                position = int(np_random.integers(self._count))
                if position not in drawn:
                    return position
            return None
        weights = self._weights.copy()
        weights[list(drawn)] = 0.0
        sums = weights.cumsum()
        if not sums[-1]:
            return None
        return int(np.searchsorted(sums, np_random.random() * sums[-1], side="right"))


def _weigh(names: Sequence[str], weights: Mapping[str, float]) -> npt.NDArray[np.float64]:
    patterns = [(re.compile(fnmatch.translate(pattern)).match, weight) for pattern, weight in weights.items()]
    used: set[int] = set()
    values = np.ones(len(names))
    for position, name in enumerate(names):
        for number, (matches, weight) in enumerate(patterns):
            if matches(name):
                used.add(number)
                values[position] = weight
                break
    unused = [pattern for number, pattern in enumerate(weights) if number not in used]
    if unused:
        raise CorpusError(f"weights were given for {', '.join(unused)}, and no module is left of these; correct them")
    if not values.any():
        raise CorpusError("the weights leave no module: one at least must be above 0")
    return values
