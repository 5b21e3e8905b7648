"""Foretells the call of each inlining decision from what clang has said until it asks."""

from __future__ import annotations

import copy

import numpy as np

from mlgo_gym.llvm.training_log import LogHeader
from mlgo_gym.session.inline_calls import Call, InlineCalls
from mlgo_gym.session.inline_contexts import InlineContexts, as_said, callee, feature_starts

_BLOCKS = "callee_basic_block_count"


class Foretelling:
    """Follows the decisions of one session."""

    def __init__(self) -> None:
        self._calls = InlineCalls()
        self._starts: list[int] = []
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
        self._starts = self._starts or feature_starts(header)
        self._asked = as_said(payload, self._starts), blocks
        return self._calls.foretell(contexts.site.component, blocks)

    def answer(self, advice: bytes) -> None:
        """Note the answer to the decision: 0 keeps the call, and anything else inlines it."""
        self._inlined = any(advice)

    def copy(self) -> Foretelling:
        """Return a copy that goes on by itself."""
        twin = copy.copy(self)
        twin._calls = self._calls.copy()
        return twin
