"""The order in which episodes take the modules of a corpus."""

import fnmatch
import re
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from mlgo_gym.errors import CorpusError

ORDERS = ("random", "shuffle", "cycle")
"""`random` draws from all modules; `shuffle` takes each once per round; `cycle` repeats the order of the corpus."""


@dataclass(slots=True)
class OrderCursor:
    """Position of one environment in the order.

    A vector environment gives environment `first` the modules `first`, `first + step`, …. `left` has the indices of the
    remaining modules of the round, the next one last. `order` is None for that of the environment's arguments.
    """

    first: int = 0
    step: int = 1
    left: list[int] = field(default_factory=list)
    order: "ModuleOrder | None" = None

    def copy(self) -> "OrderCursor":
        """Return an independent copy."""
        return replace(self, left=self.left.copy())

    def restarted(self) -> "OrderCursor":
        """Return a cursor at the start of the same order."""
        return replace(self, left=[])

    def follow(self, order: "ModuleOrder") -> None:
        """Restart at the start of another order."""
        self.left, self.order = [], order


class ModuleOrder:
    """Chooses the next module of episodes.

    The order is one of `ORDERS`; or weights ≥ 0 of random draws by glob of module names. `*` matches slashes, the first
    match counts, and the default is 1.

    Raises `CorpusError` if a weight matches no module, or all weights are 0.
    """

    def __init__(self, names: Sequence[str], order: str | Mapping[str, float] = "random") -> None:
        self._count = len(names)
        self._order, weights = (order, None) if isinstance(order, str) else ("random", order)
        self._weights = _weigh(names, weights) if weights else None

    def draw(self, np_random: np.random.Generator, cursor: OrderCursor, drawn: Set[int]) -> int | None:
        """Return the index of the next module, or None if all of the share are in `drawn`; the cursor is advanced."""
        if self._order == "random":
            return self._draw(np_random, drawn)
        if not self._count:
            return None
        share = range(cursor.first % self._count, self._count, cursor.step)
        if len(drawn) >= len(share):
            return None
        while True:
            if not cursor.left:
                cursor.left = [share[0]] if self._order == "cycle" else np_random.permutation(share).tolist()
            position = cursor.left.pop()
            if self._order == "cycle":
                cursor.left.append(position + cursor.step if position + cursor.step < self._count else share[0])
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
        return int(np.searchsorted(sums, np_random.random() * sums[-1], side="right")) if sums[-1] else None


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
        raise CorpusError(f"expected weights of module names, got {', '.join(unused)}, which match no other module")
    if not values.any():
        raise CorpusError("expected a weight above 0, got 0 for all modules")
    return values
