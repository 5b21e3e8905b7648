"""What becomes of sessions when their host forks: the compilers belong to the original."""

from __future__ import annotations

import os
import weakref
from typing import Protocol


class Closable(Protocol):
    """What holds descriptors and can close them."""

    def close(self) -> None:
        """Close everything. Idempotent."""


_live: weakref.WeakSet[Closable] = weakref.WeakSet()


def close_after_fork(session: Closable) -> None:
    """Let a session be closed in every forked copy of this process."""
    _live.add(session)


def forget(session: Closable) -> None:
    """Undo `close_after_fork()`."""
    _live.discard(session)


def _close_all() -> None:
    for session in list(_live):
        session.close()


os.register_at_fork(after_in_child=_close_all)
