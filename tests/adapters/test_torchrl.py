"""TorchRL takes the vector environment with disabled autoreset."""

from __future__ import annotations

from typing import Any

import pytest

from tests.vector.stepping import EVICT, INLINE, make

pytest.importorskip("torchrl", reason="the extra torchrl is not installed")

from torchrl.envs import ActionMask, GymWrapper, TransformedEnv
from torchrl.envs.utils import check_env_specs

pytestmark = [pytest.mark.libraries, pytest.mark.usefixtures("nothing_is_left")]


def wrapped(name: str, corpus: str) -> Any:
    env = GymWrapper(make(name, corpus, autoreset_mode="Disabled", strict=True, max_decisions=4))
    return TransformedEnv(env, ActionMask()) if name == EVICT else env


def test_its_check_of_specifications_passes(varied: str) -> None:
    env = wrapped(INLINE, varied)
    check_env_specs(env)
    env.close()


@pytest.mark.parametrize("name", [INLINE, EVICT])
def test_random_rollouts_continue_after_the_end_of_an_episode(name: str, varied: str) -> None:
    env = wrapped(name, varied)
    batch = env.rollout(40, break_when_any_done=False)
    env.close()
    done = batch["next", "done"].squeeze(-1)
    observation = "observation" if name == INLINE else "observations"
    assert int(done.sum()) >= 30
    assert not batch["next", observation][done].any()
    assert batch[observation].flatten(0, -2).any(-1).all()
    assert not batch["next", "reward"].squeeze(-1)[~done].any()
