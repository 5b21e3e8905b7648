"""What becomes of sessions when their host forks: the compilers belong to the original."""

from __future__ import annotations

import os
import weakref
from typing import Protocol


class Closable(Protocol):
    """What gives its descriptors back."""

    def close(self) -> None:
        """Give everything back. Idempotent."""


_live: weakref.WeakSet[Closable] = weakref.WeakSet()


def close_after_fork(session: Closable) -> None:
    """Let a session be closed in every forked copy of this process."""
    _live.add(session)


def forget(session: Closable) -> None:
    """Take back what was asked of `close_after_fork()`."""
    _live.discard(session)


def _close_all() -> None:
    for session in list(_live):
        session.close()


os.register_at_fork(after_in_child=_close_all)
