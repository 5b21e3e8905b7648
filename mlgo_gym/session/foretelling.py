"""Foretells the call of each inlining decision from what clang has said until it asks."""

from __future__ import annotations

import copy
from itertools import accumulate
from typing import Any

import numpy as np

from mlgo_gym.llvm.training_log import LogHeader
from mlgo_gym.session.inline_calls import Call, InlineCalls
from mlgo_gym.session.inline_contexts import InlineContexts, callee

_BLOCKS = "callee_basic_block_count"


class Foretelling:
    """Follows the decisions of one session."""

    def __init__(self) -> None:
        self._calls = InlineCalls()
        self._asked: tuple[list[int], int] | None = None
        self._inlined = False

    def ask(self, payload: bytes, header: LogHeader, contexts: InlineContexts) -> Call:
        """Return the call that clang probably asks about.

        Args:
            payload: the features of the decision.
            header: the advisor's.
            contexts: what has followed clang until this decision.
        """
        if self._asked is not None:
            features, blocks = self._asked
            name = callee(contexts.remarks[-1], features) or ""
            self._calls.learn(name, blocks, inlined=self._inlined)
        for dump in contexts.dumps:
            self._calls.begin(dump)
        record = np.frombuffer(payload, header.dtype, 1)[0]
        blocks = int(record[_BLOCKS][0])
        self._asked = _as_said(payload, header), blocks
        return self._calls.foretell(contexts.site.component, blocks)

    def answer(self, advice: bytes) -> None:
        """Note the answer to the decision: 0 keeps the call, and anything else inlines it."""
        self._inlined = any(advice)

    def copy(self) -> Foretelling:
        """Return a copy that goes on by itself."""
        twin = copy.copy(self)
        twin._calls = self._calls.copy()
        return twin


def _as_said(payload: bytes, header: LogHeader) -> list[Any]:
    """Return the features as clang says them: of an embedding the first eight bytes, as a number."""
    ends = list(accumulate(spec.nbytes for spec in header.features))
    starts = [end - spec.nbytes for end, spec in zip(ends, header.features, strict=True)]
    return [int.from_bytes(payload[start : start + 8], "little", signed=True) for start in starts]
