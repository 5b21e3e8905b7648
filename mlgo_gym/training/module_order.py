"""Which modules are learned from, and in which order."""

from __future__ import annotations

import random

from mlgo_gym.corpus.corpus import Corpus


def module_order(corpus: Corpus, seed: int, largest: int | None = None) -> list[str]:
    """Return the modules of a corpus in an order drawn at random, so that the first of them stand for all.

    Args:
        corpus: the corpus.
        seed: the source of chance.
        largest: modules with more bytes of bitcode are left out; None leaves none out.
    """
    names = [name for name in corpus.names if largest is None or corpus.size(name) <= largest]
    random.Random(f"{seed}").shuffle(names)  # noqa: S311 - no secret
    return names
