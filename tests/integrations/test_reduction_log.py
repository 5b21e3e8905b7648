"""`ReductionLog` writes the curves of episodes for any logger."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mlgo_gym.errors import MlgoError
from mlgo_gym.integrations import ReductionLog
from tests.conftest import copy_modules
from tests.fakes.drive import failed_end, play
from tests.fakes.stepping import INLINE, end_clang, make

pytestmark = pytest.mark.usefixtures("nothing_is_left")


@pytest.fixture
def projects(calls: Path, tmp_path: Path) -> str:
    """A corpus of two projects."""
    return str(copy_modules(tmp_path, {"one/calls": calls, "two/calls": calls}))


@pytest.mark.parametrize("mode", ["NextStep", "SameStep"])
def test_curves_are_means_over_the_episodes_that_ended(mode: str, projects: str) -> None:
    written: list[dict[str, float]] = []
    log = ReductionLog(written.append, episodes=4)
    envs = make(INLINE, projects, 2, autoreset_mode=mode, max_decisions=2)
    envs.reset(options={"module": ["one/calls", "two/calls"]})
    end_clang(envs, 0)
    reductions: dict[str, list[float]] = {"one": [], "two": []}
    ended = 0
    while not written:
        *_, terminations, truncations, info = envs.step([0, 1])
        log(terminations | truncations, info)
        last = info.get("final_info", info)
        ended += int((terminations | truncations).sum())
        for row in np.flatnonzero(last.get("_reduction", ())):
            if not np.isnan(last["reduction"][row]):
                reductions[str(last["module"][row]).partition("/")[0]].append(float(last["reduction"][row]))
    envs.close()
    every = [*reductions["one"], *reductions["two"]]
    expected: dict[str, Any] = {f"reduction/{name}": np.mean(values) for name, values in reductions.items() if values}
    expected |= {"reduction/all": np.mean(every), "failures/rate": 1 / ended, "failures/signal": 1 / ended}
    assert ended >= 4
    assert written[0] == pytest.approx(expected)


def test_single_environments_and_numeric_infos_have_curves_too(varied: str) -> None:
    written: list[dict[str, float]] = []
    log = ReductionLog(written.append, episodes=100)
    log.flush()
    for info in ("full", "numeric"):
        env: Any = make(INLINE, varied, 1, info=info).env_type(corpus=varied, info=info)
        for step in (*play(env, 1, module="calls"), failed_end(env, "calls")):
            log(step.terminated or step.truncated, step.info)
        env.close()
    log.flush()
    assert len(written) == 1
    assert written[0].keys() == {
        "reduction/all",
        "reduction/modules",
        "failures/rate",
        "failures/signal",
        "failures/compile",
    }
    assert (written[0]["failures/rate"], written[0]["failures/signal"]) == (0.5, 0.25)
    with pytest.raises(MlgoError, match="expected episodes ≥ 1, got 0"):
        ReductionLog(written.append, episodes=0)
