"""Compiles that wait along the paths of a search, so that no path need start at the first decision."""

from __future__ import annotations

from collections import OrderedDict

from mlgo_gym.search.search_space import Branch

MOST_SNAPSHOTS = 32
"""How many compiles wait at once."""


class Snapshots:
    """Compiles that wait, the least recently used of which are let go.

    Args:
        root: waits at the first decision; its owner keeps it and closes it.
    """

    def __init__(self, root: Branch) -> None:
        self._root = root
        self._kept: OrderedDict[tuple[int, ...], Branch] = OrderedDict()

    def _nearest(self, path: tuple[int, ...]) -> int:
        """Return how many actions of a path the nearest waiting compile has already taken."""
        return max((len(kept) for kept in self._kept if path[: len(kept)] == kept), default=0)

    def at(self, path: tuple[int, ...]) -> Branch:
        """Return a copy of the compile at the end of a path, from the nearest one that waits; the caller closes it.

        Raises:
            CompilerError: the compile failed.
        """
        start = path[: self._nearest(path)]
        if start:
            self._kept.move_to_end(start)
        branch = self._kept[start].fork() if start else self._root.fork()
        try:
            for action in path[len(start) :]:
                branch.take(action)
        except BaseException:
            branch.close()
            raise
        return branch

    def keep(self, branch: Branch, apart: int = 0) -> None:
        """Keep a copy of a compile that waits, unless one waits on its path at most `apart` decisions before."""
        if len(branch.actions) - self._nearest(branch.actions) <= apart:
            return
        self._kept[branch.actions] = branch.fork()
        if len(self._kept) > MOST_SNAPSHOTS:
            _, oldest = self._kept.popitem(last=False)
            oldest.close()

    def close(self) -> None:
        """End all of them. Idempotent."""
        for branch in self._kept.values():
            branch.close()
        self._kept.clear()

    def __enter__(self) -> Snapshots:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
