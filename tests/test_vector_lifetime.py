"""The lifetime of vector environments: copies, the end, and nothing that is left."""

import copy
import pickle
from collections.abc import Iterator

import numpy as np
import pytest
from gymnasium.utils.env_checker import data_equivalence

from mlgo_gym.errors import MlgoError
from tests.fakes.stepping import INLINE, end_clang, make
from tests.traces import traces

pytestmark = pytest.mark.usefixtures("nothing_is_left")


def test_copies_have_the_arguments_and_deep_copies_the_random_generators(varied: str) -> None:
    envs = make(INLINE, varied, 2, batch_size=1, autoreset_mode="SameStep", max_episode_steps=2, max_decisions=3)
    envs.reset(seed=3)
    for copied in (pickle.loads(pickle.dumps(envs)), copy.copy(envs)):
        assert data_equivalence(copied.reset(seed=3), envs.reset(seed=3), exact=True)
        assert (copied.batch_size, copied.autoreset_mode) == (1, envs.autoreset_mode)
        steps = [made.step([0, 1]) for _ in range(2) for made in (copied, envs)]
        assert steps[2][3].all()
        assert data_equivalence(steps[2], steps[3], exact=True)
        copied.close()
    with pytest.raises(MlgoError, match=r"expected no running episode for a copy, got some; copy it before reset"):
        copy.deepcopy(envs)
    envs.close()
    fresh = make(INLINE, varied, 2)
    fresh.set_attr("np_random", list(make_generators()))
    copied = copy.deepcopy(fresh)
    for made in (fresh, copied):
        assert made.np_random_seed == (-1, -1)
    assert data_equivalence(copied.reset(), fresh.reset(), exact=True)
    for made in (fresh, copied):
        made.close()


def make_generators() -> Iterator[np.random.Generator]:
    return map(np.random.default_rng, (5, 6))


def test_closing_ends_every_compile_and_can_be_repeated(varied: str) -> None:
    before, envs = traces().children, make(INLINE, varied)
    envs.reset()
    envs.step([0, 0, 0])
    assert len(traces().children - before) == 6
    envs.close()
    envs.close()
    assert traces().children <= before
    for use in (envs.reset, envs.async_reset, envs.recv, lambda: envs.step([0] * 3)):
        with pytest.raises(MlgoError, match="expected an open vector environment"):
            use()


def test_an_environment_that_is_forgotten_closes_itself(varied: str) -> None:
    before = traces()
    envs = make(INLINE, varied)
    envs.reset()
    del envs
    assert traces() <= before


def test_crashes_and_resets_in_mid_episode_leave_nothing(varied: str) -> None:
    envs = make(INLINE, varied, 4, autoreset_mode="SameStep", batch_size=3, max_decisions=2, prefetch=2)
    envs.async_reset(seed=0)
    for step in range(20):
        info = envs.recv()[4]
        if step % 5 == 2:
            end_clang(envs, info["env_id"][0])
        if step % 7 == 3:
            envs.async_reset(env_ids=info["env_id"])
        else:
            envs.send([1, 0, 1])
    envs.close()  # the fixture looks for what is left
