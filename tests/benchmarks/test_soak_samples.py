"""Slopes tell growth from noise."""

from __future__ import annotations

import pytest

from benchmarks.soak_samples import LIMITS, Sample, slopes


def samples(growth: float) -> list[Sample]:
    """Samples whose host memory is noisy and grows by `growth` MiB in 10,000 episodes."""
    return [Sample(at, 20 * at, 100 + growth * at / 500 + (at * 7 % 5) / 10, 50, 3, 9, 1, 0, 1) for at in range(500)]


@pytest.mark.parametrize(("growth", "verdict"), [(0, "flat"), (LIMITS["host_memory"] * 3, "grows")])
def test_growth_is_told_from_noise(growth: float, verdict: str) -> None:
    found = {each.name: each for each in slopes(samples(growth))}
    assert found["host_memory"].verdict == verdict
    assert found["host_memory"].slope == pytest.approx(growth, abs=1)
    assert {each.verdict for name, each in found.items() if name != "host_memory"} == {"flat"}
