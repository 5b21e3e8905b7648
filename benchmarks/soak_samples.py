"""What a process and its children hold at a moment, and whether any of it grows: slopes, verdicts, a picture."""

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

from mlgo_gym.session.scratch import scratch_parent

PAGE = os.sysconf("SC_PAGE_SIZE")
MIB = 1 << 20

WARM_UP = 0.15
"""The share of the samples that is left out: what is kept for reuse is filled in that time."""

CONFIDENCE = 0.99


@dataclass(frozen=True, slots=True)
class Sample:
    """What is held at a moment.

    Attributes:
        seconds: since the soak began.
        episodes: how many have ended.
        host_memory: resident memory of this process, MiB.
        children_memory: proportional memory (`Pss`, what is shared counted once) of its children and theirs, MiB.
        processes: how many of these there are, those that nobody has reaped among them.
        descriptors: the open descriptors of this process.
        threads: its threads.
        scratch: the bytes in its scratch folders, MiB.
        cache: the bytes in the folder of what is cached, MiB.
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
"""By how much each may grow in 10,000 episodes. One descriptor or process that each thousandth episode leaves is 10."""


@dataclass(frozen=True, slots=True)
class Slope:
    """How fast something grows in 10,000 episodes: Theil and Sen's slope, and its interval.

    Attributes:
        name: what.
        slope: the median of the slopes between all pairs of samples.
        low: the lower end of the interval of 99 %.
        high: its upper end.
        limit: what is allowed.
    """

    name: str
    slope: float
    low: float
    high: float
    limit: float

    @property
    def verdict(self) -> str:
        """Return `flat`, `grows`, or `undecided` where the limit lies within the interval."""
        if self.high <= self.limit:
            return "flat"
        return "grows" if self.low > self.limit else "undecided"


def take_sample(start: float, episodes: int, cache: Path) -> Sample:
    """Return what is held now, after collecting garbage."""
    gc.collect()
    family = _descendants(os.getpid())
    return Sample(
        round(time.monotonic() - start, 3),
        episodes,
        int(Path("/proc/self/statm").read_text().split()[1]) * PAGE / MIB,
        sum(_proportional_kib(pid) for pid in family) / 1024,
        len(family),
        len(list(Path("/proc/self/fd").iterdir())),
        threading.active_count(),
        sum(_bytes_below(folder) for folder in Path(scratch_parent()).glob(f"mlgo-gym-{os.getpid()}-*")) / MIB,
        _bytes_below(cache) / MIB,
    )


def slopes(samples: Sequence[Sample]) -> list[Slope]:
    """Return how fast each thing grows, but for the first samples."""
    from scipy.stats import theilslopes

    kept = samples[int(len(samples) * WARM_UP) :]
    # Pairs grow with the square: a thousand samples are enough.
    kept = kept[:: max(1, len(kept) // 1000)]
    episodes = np.array([sample.episodes for sample in kept]) / 10_000
    found = []
    for name, limit in LIMITS.items():
        values = np.array([getattr(sample, name) for sample in kept], float)
        result = theilslopes(values, episodes, CONFIDENCE)
        found.append(Slope(name, float(result.slope), float(result.low_slope), float(result.high_slope), limit))
    return found


def table(found: Sequence[Slope], samples: Sequence[Sample]) -> str:
    """Return the slopes as a table for a person to read."""
    lines = [f"{'per 10,000 episodes':20} {'first':>8} {'last':>8} {'slope':>9} {'interval of 99 %':>21} {'limit':>6}"]
    first = samples[int(len(samples) * WARM_UP)]
    for each in found:
        start, end = (float(getattr(sample, each.name)) for sample in (first, samples[-1]))
        lines.append(
            f"{each.name:20} {start:8.1f} {end:8.1f} {each.slope:+9.3f} [{each.low:+9.3f},{each.high:+9.3f}] "
            f"{each.limit:6.1f}  {each.verdict}"
        )
    return "\n".join(lines)


def as_json(found: Sequence[Slope], samples: Sequence[Sample]) -> dict[str, Any]:
    """Return JSON-able data."""
    return {
        "slopes": [{**asdict(each), "verdict": each.verdict} for each in found],
        "samples": [asdict(sample) for sample in samples],
    }


def draw(samples: Sequence[Sample], path: Path) -> None:
    """Draw everything over episodes, one panel each; needs matplotlib."""
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
    panels[-1].set_xlabel("episodes (dotted: where the slopes begin; memory, scratch and cache in MiB)")
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
    except OSError:  # it has ended
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith("Pss:")), 0)


def _bytes_below(folder: Path) -> int:
    total = 0
    for place, _, names in os.walk(folder):
        for name in names:
            try:
                total += Path(place, name).lstat().st_size
            except OSError:
                continue
    return total
