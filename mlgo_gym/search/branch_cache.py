"""Cache of forked compiles along the paths of a search."""

from __future__ import annotations

from collections import OrderedDict
from contextlib import AbstractContextManager

from mlgo_gym.search.search_space import Branch

MAX_BRANCHES = 32
"""Maximum number of compiles that wait at the same time."""


class BranchCache(AbstractContextManager["BranchCache"]):
    """Least-recently-used cache of waiting compiles by path, so that no path starts at the first decision.

    Args:
        root: A branch at the first decision; the caller closes it.
    """

    def __init__(self, root: Branch) -> None:
        self._root = root
        self._kept: OrderedDict[tuple[int, ...], Branch] = OrderedDict()

    def _nearest(self, path: tuple[int, ...]) -> int:
        """Return the length of the longest cached prefix of a path."""
        return max((len(kept) for kept in self._kept if path[: len(kept)] == kept), default=0)

    def at(self, path: tuple[int, ...]) -> Branch:
        """Return a branch at the end of a path, forked from the nearest cached one; the caller closes it."""
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
        """Cache a fork of a branch, unless a prefix at most `apart` decisions shorter is cached."""
        if len(branch.actions) - self._nearest(branch.actions) <= apart:
            return
        self._kept[branch.actions] = branch.fork()
        if len(self._kept) > MAX_BRANCHES:
            _, oldest = self._kept.popitem(last=False)
            oldest.close()

    def close(self) -> None:
        """Close all cached branches. Idempotent."""
        for branch in self._kept.values():
            branch.close()
        self._kept.clear()

    def __exit__(self, *_: object) -> None:
        self.close()
