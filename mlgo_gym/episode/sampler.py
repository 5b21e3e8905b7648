"""Which module comes next when none is named: one after the other, until one has a decision."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import numpy as np

from mlgo_gym.corpus.module import Module
from mlgo_gym.corpus.order import Turn
from mlgo_gym.episode.setup import Setup
from mlgo_gym.errors import CompilerError, CorpusError, MlgoError
from mlgo_gym.session.work import Work

T = TypeVar("T")

_MOST_FAILURES = 10
"""Sampling gives up after so many modules that the compiler fails on."""


class Sampler:
    """Draws modules until one has a decision, none of them twice.

    Args:
        setup: whose corpus to draw from.
        np_random: the random generator; equal states draw equal modules.
        turn: how far the environment has come in the order of modules; advanced.

    Attributes:
        skipped: the modules on which the compiler failed, with the reason.
    """

    def __init__(self, setup: Setup, np_random: np.random.Generator, turn: Turn) -> None:
        self._setup = setup
        self._np_random = np_random
        self._turn = turn
        self._drawn: set[int] = set()
        self.skipped: dict[str, str] = {}

    def first(self, attempt: Callable[[Module], Work[T | None]]) -> Work[T]:
        """Draw modules until an attempt to begin with one comes to something, and return that.

        Args:
            attempt: returns None for a module without a decision.

        Raises:
            CorpusError: none came to anything.
            CompilerError: the compiler failed on too many.
        """
        while True:
            module = self.draw()
            try:
                found = yield from attempt(module)
            except (CompilerError, CorpusError) as error:
                self.note_failure(module.name, error)
                continue
            if found is not None:
                return found

    def draw(self) -> Module:
        """Return a module that has not been drawn before.

        Raises:
            CorpusError: all have been drawn.
        """
        corpus = self._setup.corpus
        position = self._setup.order.draw(self._np_random, self._turn, self._drawn)
        if position is not None:
            self._drawn.add(position)
            return corpus[position]
        failures = f"; the compiler failed on {len(self.skipped)} of them" if self.skipped else ""
        raise CorpusError(
            f"none of the {len(corpus)} modules of corpus {corpus.name!r} has {with_article(self._setup.task.name)} "
            f"decision{failures}: choose another corpus"
        )

    def note_failure(self, module: str, error: MlgoError) -> None:
        """Remember that the compiler failed on a module.

        Raises:
            MlgoError: `error`, when too many failed, or with `on_error="raise"`.
        """
        self.skipped[module] = str(error)
        most = min(_MOST_FAILURES, len(self._setup.corpus))
        if self._setup.settings.on_error == "raise" or len(self.skipped) >= most:
            raise error


def with_article(noun: str) -> str:
    """Return a noun behind `a` or `an`."""
    return f"{'an' if noun[0] in 'aeiou' else 'a'} {noun}"
