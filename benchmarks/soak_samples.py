"""Samples of the resources of a process and its children: slopes, verdicts and a figure."""

from __future__ import annotations

import gc
import os
import threading
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.measuring import Table
from mlgo_clang.files import scratch_parent

PAGE = os.sysconf("SC_PAGE_SIZE")
MIB = 1 << 20

WARM_UP = 0.15
"""Share of the samples that is excluded: caches and pools fill in that time."""

CONFIDENCE = 0.99


@dataclass(frozen=True, slots=True)
class Sample:
    """Resources at one moment.

    Attributes:
        seconds: seconds since the start.
        episodes: number of ended episodes.
        host_memory: resident memory of this process, in MiB.
        children_memory: proportional memory (`Pss`; shared pages count once) of its descendants, in MiB.
        processes: number of descendants, zombies included.
        descriptors: number of open descriptors of this process.
        threads: number of its threads.
        scratch: size of its scratch folders, in MiB.
        cache: size of the cache folder, in MiB.
    """

    seconds: float
    episodes: int
    host_memory: float
    children_memory: float
    processes: int
    descriptors: int
    threads: int
    scratch: float
    cache: float


LIMITS = {
    "host_memory": 8.0,
    "children_memory": 32.0,
    "processes": 2.0,
    "descriptors": 2.0,
    "threads": 1.0,
    "scratch": 1.0,
    "cache": 4.0,
}
"""Allowed growth in 10,000 episodes. One descriptor left by each thousandth episode is 10."""


@dataclass(frozen=True, slots=True)
class Slope:
    """Growth of one resource in 10,000 episodes: Theil and Sen's slope, with an interval of 99 %.

    Attributes:
        name: the resource.
        slope: median of the slopes between all pairs of samples.
        low: lower end of the interval.
        high: upper end of the interval.
        limit: allowed growth.
    """

    name: str
    slope: float
    low: float
    high: float
    limit: float

    @property
    def verdict(self) -> str:
        """`flat`, `grows`, or `undecided` if the interval contains the limit."""
        if self.high <= self.limit:
            return "flat"
        return "grows" if self.low > self.limit else "undecided"


def take_sample(start: float, episodes: int, cache: Path) -> Sample:
    """Collect garbage, and return a sample."""
    gc.collect()
    children = _descendants(os.getpid())
    return Sample(
        round(time.monotonic() - start, 3),
        episodes,
        int(Path("/proc/self/statm").read_text().split()[1]) * PAGE / MIB,
        sum(_proportional_kib(pid) for pid in children) / 1024,
        len(children),
        len(list(Path("/proc/self/fd").iterdir())),
        threading.active_count(),
        sum(_bytes_below(folder) for folder in Path(scratch_parent()).glob(f"mlgo-gym-{os.getpid()}-*")) / MIB,
        _bytes_below(cache) / MIB,
    )


def slopes(samples: Sequence[Sample]) -> list[Slope]:
    """Return the growth of each resource after the warm-up."""
    from scipy.stats import theilslopes

    kept = samples[int(len(samples) * WARM_UP) :]
    # The number of pairs is quadratic; a thousand samples are enough.
    kept = kept[:: max(1, len(kept) // 1000)]
    episodes = np.array([sample.episodes for sample in kept]) / 10_000
    found = []
    for name, limit in LIMITS.items():
        values = np.array([getattr(sample, name) for sample in kept], float)
        result = theilslopes(values, episodes, CONFIDENCE)
        found.append(Slope(name, float(result.slope), float(result.low_slope), float(result.high_slope), limit))
    return found


def print_slopes(found: Sequence[Slope], samples: Sequence[Sample]) -> None:
    """Print the slopes as a table."""
    titles = {"per 10,000 episodes": "<20", "first": ">8.1f", "last": ">8.1f", "slope": ">+9.3f", "low": ">+9.3f"}
    table = Table({**titles, "high": ">+9.3f", "limit": ">6.1f", "verdict": "<10"})
    first = samples[int(len(samples) * WARM_UP)]
    for each in found:
        values = (getattr(sample, each.name) for sample in (first, samples[-1]))
        table.row(each.name, *values, each.slope, each.low, each.high, each.limit, each.verdict)


def as_json(found: Sequence[Slope], samples: Sequence[Sample]) -> dict[str, Any]:
    """Return JSON-able data."""
    return {
        "slopes": [{**asdict(each), "verdict": each.verdict} for each in found],
        "samples": [asdict(sample) for sample in samples],
    }


def draw(samples: Sequence[Sample], path: Path) -> None:
    """Draw each resource over the episodes; needs matplotlib."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot

    figure, panels = pyplot.subplots(len(LIMITS), 1, sharex=True, figsize=(8, 1.3 * len(LIMITS)), layout="constrained")
    episodes = [sample.episodes for sample in samples]
    for panel, name in zip(panels, LIMITS, strict=True):
        panel.plot(episodes, [getattr(sample, name) for sample in samples], linewidth=0.8)
        panel.set_ylim(bottom=0)
        panel.set_ylabel(name.replace("_", "\n"), rotation=0, ha="right", va="center", fontsize=8)
        panel.axvline(episodes[int(len(samples) * WARM_UP)], color="grey", linewidth=0.6, linestyle=":")
    panels[-1].set_xlabel("episodes (dotted: end of the warm-up; memory, scratch and cache in MiB)")
    figure.savefig(path, dpi=110)
    pyplot.close(figure)


def _descendants(pid: int) -> list[int]:
    found: list[int] = []
    try:
        tasks = list(Path(f"/proc/{pid}/task").iterdir())
    except OSError:
        return found
    for task in tasks:
        try:
            children = [int(child) for child in task.joinpath("children").read_text().split()]
        except OSError:
            continue
        for child in children:
            found += [child, *_descendants(child)]
    return found


def _proportional_kib(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:  # the process has ended
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith("Pss:")), 0)


def _bytes_below(folder: Path) -> int:
    total = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            try:
                total += Path(parent, name).lstat().st_size
            except OSError:
                continue
    return total
