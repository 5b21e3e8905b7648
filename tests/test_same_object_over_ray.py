"""The same answers make the same object in a worker of a Ray cluster."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import MakeBitcode

pytest.importorskip("ray")

PROGRAM: dict[str, Any] = runpy.run_path(str(Path(__file__).parents[1] / "benchmarks" / "same_object.py"))


@pytest.mark.libraries
@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.filterwarnings("ignore")  # of Ray's, about what it will do one day
@pytest.mark.xdist_group("ray")
def test_in_a_worker_of_a_cluster(make_bitcode: MakeBitcode) -> None:
    corpus = str(make_bitcode("families.c"))
    ways = PROGRAM["Ways"](PROGRAM["INLINE"], corpus, Path(corpus).stem)
    assert ways.single() == PROGRAM["over_ray"](ways)
