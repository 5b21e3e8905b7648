"""TorchRL by `GymEnv`, which makes environments from their ids, and by `GymWrapper` around our vectors."""

from typing import Any

import pytest

from tests.fakes.stepping import EVICT, INLINE, make

pytest.importorskip("torchrl", reason="the extra torchrl is not installed")

from torchrl.envs import ActionMask, GymEnv, GymWrapper, TransformedEnv
from torchrl.envs.utils import check_env_specs

pytestmark = pytest.mark.libraries


@pytest.mark.usefixtures("nothing_is_left")
def test_it_makes_an_environment_from_an_id(name: str, short: dict[str, Any]) -> None:
    env = GymEnv(name, **short)
    check_env_specs(env)
    batch = env.rollout(10, break_when_any_done=False)
    env.close()
    assert batch.batch_size == (10,)
    assert batch["next", "done"].any()


def test_it_makes_two_with_workers_of_its_own(name: str, short: dict[str, Any]) -> None:
    if name == "mlgo/Joint-v0":  # of a batch of one-hot `task` TorchRL's check of specifications expects other zeros
        short = short | {"observation": "vector"}
    env = GymEnv(f"mlgo_gym:{name}", num_envs=2, info="numeric", **short)  # the workers import it
    batch = env.rollout(6, break_when_any_done=False)
    env.close()
    assert batch.batch_size == (2, 6)
    assert batch["next", "done"].any()


def wrapped(name: str, corpus: str) -> Any:
    env = GymWrapper(make(name, corpus, autoreset_mode="Disabled", strict=True, max_decisions=4))
    return TransformedEnv(env, ActionMask()) if name == EVICT else env


@pytest.mark.usefixtures("nothing_is_left")
@pytest.mark.parametrize("name", [INLINE, EVICT])
def test_random_rollouts_continue_after_the_end_of_an_episode(name: str, varied: str) -> None:
    env = wrapped(name, varied)
    if name == INLINE:
        check_env_specs(env)
    batch = env.rollout(40, break_when_any_done=False)
    env.close()
    done = batch["next", "done"].squeeze(-1)
    observation = "observation" if name == INLINE else "observations"
    assert int(done.sum()) >= 30
    assert not batch["next", observation][done].any()
    assert batch[observation].flatten(0, -2).any(-1).all()
    assert not batch["next", "reward"].squeeze(-1)[~done].any()
