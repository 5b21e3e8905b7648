"""Bootstrap samples of modules, clustered by project, as counts of how often each module was drawn."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

CONFIDENCE = 0.95
"""The part of the bootstrap samples whose statistics lie in an interval."""

_MOST, _LEAST = 9999, 1000
_DRAWS = 5_000_000
"""How many modules are drawn in all samples together, about: what a second takes."""
_CELLS = 1_000_000
"""The counts that are held in memory at a time."""
_SEED = 0

Counts = npt.NDArray[np.int64]
"""int64 of shape (samples, modules): how often each module was drawn."""


def samples(clusters: Sequence[str]) -> Iterator[Counts]:
    """Yield bootstrap samples in batches; the same ones for the same clusters.

    As many projects are drawn as there are, each as likely as the others, and from each project that was drawn as many
    modules as it has (Davison and Hinkley 1997, Bootstrap Methods and their Application, section 3.8; scipy's
    `bootstrap` knows no clusters). Modules of one project are alike: were they drawn as if they were independent, the
    intervals would be too narrow. Of a single project modules alone are drawn.

    Args:
        clusters: the project of each module.
    """
    names, numbers = np.unique(np.asarray(clusters, dtype=np.str_), return_inverse=True)
    members = [np.flatnonzero(numbers == number) for number in range(len(names))]
    total = len(clusters)
    generator = np.random.default_rng(_SEED)
    wanted = min(_MOST, max(_LEAST, _DRAWS // max(total, 1)))
    batch = max(1, _CELLS // max(total, 1))
    for start in range(0, wanted, batch):
        rows = min(batch, wanted - start)
        drawn = generator.multinomial(len(members), np.full(len(members), 1 / len(members)), size=rows)
        counts: Counts = np.zeros((rows, total), np.int64)
        for number, modules in enumerate(members):
            size = len(modules)
            # A project that was drawn twice gives twice as many draws of its modules.
            each = drawn[:, number] * size
            counts[:, modules] = each[:, None] if size == 1 else generator.multinomial(each, np.full(size, 1 / size))
        yield counts


def interval_of(statistics: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return the percentile interval of a statistic over the samples.

    Args:
        statistics: of shape (samples, …).

    Returns:
        The lower and the upper end, of shape (2, …).
    """
    tail = (1 - CONFIDENCE) / 2
    ends: npt.NDArray[np.float64] = np.quantile(statistics, [tail, 1 - tail], axis=0)
    return ends
