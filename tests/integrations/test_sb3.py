"""stable-baselines3 and sb3-contrib learn in single and vector environments, and start from networks."""

import importlib
import os
import signal
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from mlgo_gym import as_vector, load_policy
from mlgo_gym.errors import MlgoError, PolicyError
from mlgo_gym.integrations import NormalizeFeatures, fit_normalization, vector
from mlgo_gym.integrations.normalize_features import record_observations
from tests.fakes.stepping import EVICT, INLINE, clang_of, make, make_sync
from tests.policies.episodes import decisions, featured_network

pytest.importorskip("stable_baselines3", reason="the extra sb3 is not installed")
pytest.importorskip("sb3_contrib", reason="the extra sb3 is not installed")
pytest.importorskip("tensorboard", reason="the extra sb3 is not installed")

from sb3_contrib import MaskablePPO
from sb3_contrib.common.maskable.utils import get_action_masks, is_masking_supported
from stable_baselines3 import DQN, PPO
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import DummyVecEnv

from mlgo_gym.integrations.sb3 import CreditAdvantages, ReductionLogger, VecEnvAdapter, read_sb3, start_sb3

pytestmark = [
    pytest.mark.libraries,
    pytest.mark.usefixtures("nothing_is_left"),
    pytest.mark.filterwarnings("ignore:.*multiple of the mini-batch.*:UserWarning"),
]


def adapted(name: str, corpus: str, num_envs: int = 2, **options: Any) -> VecEnvAdapter:
    return VecEnvAdapter(make(name, corpus, num_envs, autoreset_mode="SameStep", **options))


def ppo(env: Any, steps: int = 32, batch: int = 16) -> PPO:
    return PPO("MlpPolicy", env, n_steps=steps, batch_size=batch, seed=0, device="cpu")


# Learning


@pytest.mark.parametrize("name", [INLINE, EVICT, "mlgo/Joint-v0"])
def test_agents_learn_and_never_take_an_illegal_action(name: str, varied: str) -> None:
    env = adapted(name, varied, strict=True, max_decisions=12)
    algorithm: Any = PPO if name == INLINE else MaskablePPO
    policy = "MlpPolicy" if name == INLINE else "MultiInputPolicy"
    model = algorithm(policy, env, n_steps=64, batch_size=32, n_epochs=2, seed=1, device="cpu")
    before = [parameter.clone() for parameter in model.policy.parameters()]
    model.learn(256)
    env.close()
    assert any(not (old == new).all() for old, new in zip(before, model.policy.parameters(), strict=True))
    assert all(parameter.isfinite().all() for parameter in model.policy.parameters())
    assert len(model.ep_info_buffer) > 10


class Follow(CreditAdvantages):
    """Keeps, for each finished episode, its module, the credit of its cells and its rewards; checks each rollout."""

    def __init__(self) -> None:
        super().__init__(clip=1e9)
        self.episodes: list[tuple[str, list[float], list[float]]] = []
        self._positions: dict[int, list[tuple[int, int]]] = {}

    def _on_step(self) -> bool:
        for row, number in enumerate(self._shown):
            self._positions.setdefault(number, []).append((self._steps, row))
        super()._on_step()
        for row, number in enumerate(self._shown):
            if self.locals["dones"][row]:
                cells, info = self._positions.pop(number), self.locals["infos"][row]
                kept = [float(self._credits[cell]) for cell in cells]
                self.episodes.append((info["module"], kept, list(info["rewards"])))
        return True

    def _on_rollout_end(self) -> None:
        super()._on_rollout_end()
        buffer, known = self.locals["rollout_buffer"], ~np.isnan(self._credits)
        assert np.array_equal(buffer.advantages, buffer.returns - buffer.values)
        assert np.array_equal(buffer.advantages != 0, known), "unfinished episodes have no advantage"
        assert buffer.returns[known] == pytest.approx(self._credits[known] / self._credits[known].std(), rel=1e-4)


def test_rows_that_are_ready_first_get_the_credit_of_their_own_decisions(varied: str) -> None:
    with gym.make(INLINE, corpus=varied) as single:
        normalization = fit_normalization(single, observations=50)
    envs = make(INLINE, varied, 5, batch_size=2, autoreset_mode="SameStep", credit=True)
    env, follow = VecEnvAdapter(vector.NormalizeFeatures(envs, normalization)), Follow()
    agent = ppo(env, 64, 32)
    agent.learn(128, callback=follow)
    assert env.num_envs == 2
    assert len(env.get_attr("metric")) == 2
    env.close()
    assert len(follow.episodes) > 10
    assert len({module for module, *_ in follow.episodes}) > 1
    for _, kept, credit in follow.episodes:
        assert kept == pytest.approx(credit, rel=1e-5)
    lengths = [int(episode["l"]) for episode in agent.ep_info_buffer]
    assert lengths == [len(credit) for _, _, credit in follow.episodes][-100:]


def test_masks_are_those_of_the_rows_that_are_ready(varied: str) -> None:
    envs = make(EVICT, varied, 3, batch_size=2, autoreset_mode="SameStep", strict=True)
    env = VecEnvAdapter(envs)
    env.rows_change = True
    assert is_masking_supported(env)
    env.seed(3)
    observations = env.reset()
    for _ in range(20):
        masks = get_action_masks(env)
        assert masks.shape == (2, 33)
        assert np.array_equal(masks, observations["action_mask"])
        assert np.array_equal(env.env_method("action_masks", indices=1), masks[1:])
        observations, *_ = env.step(masks.argmax(axis=1))
    env.close()


# The interface


@pytest.mark.parametrize("name", [INLINE, EVICT, "mlgo/RegAllocPriority-v0"])
def test_it_returns_the_same_as_dummy_vec_env(name: str, varied: str) -> None:
    options: dict[str, Any] = {"max_decisions": 3, "strict": False}
    ours = adapted(name, varied, **options)
    theirs = DummyVecEnv([lambda: gym.make(name, corpus=varied, **options)] * 2)
    ours.seed(4)
    theirs.seed(4)
    ours.action_space.seed(1)
    np.testing.assert_equal(ours.reset(), theirs.reset())
    np.testing.assert_equal(ours.reset_infos, theirs.reset_infos)
    for _ in range(12):
        actions = np.stack([ours.action_space.sample() for _ in range(2)])
        (*stepped, infos), (*expected, other_infos) = ours.step(actions), theirs.step(actions)
        np.testing.assert_equal(stepped, expected)
        assert [array.dtype for array in stepped[1:]] == [array.dtype for array in expected[1:]]
        for pair in ((infos, other_infos), (ours.reset_infos, theirs.reset_infos)):
            for own, other in zip(*pair, strict=True):
                own = {name: value for name, value in own.items() if name not in ("env_id", "episode")}
                np.testing.assert_equal(own, {name: value for name, value in other.items() if name != "env_id"})
    ours.close()
    theirs.close()


@pytest.mark.parametrize(("sent", "kind"), [(signal.SIGSEGV, "signal"), (signal.SIGSTOP, "timeout")])
def test_nothing_is_bootstrapped_from_a_crash(sent: int, kind: str, varied: str) -> None:
    """A learner adds the value of the last observation only after a limit of time, where it is that of a decision."""
    env = adapted(INLINE, varied, error_reward=-2.0, compile_options={"timeout": 0.5})
    observations = env.reset()
    os.kill(clang_of(as_vector(env.envs), 1), sent)
    _, rewards, dones, infos = env.step(np.array([1, 1]))
    assert rewards.tolist() == [0.0, -2.0]
    assert dones.tolist() == [False, True]
    assert [info["TimeLimit.truncated"] for info in infos] == [False, kind == "timeout"]
    last = infos[1]["terminal_observation"]
    assert np.array_equal(last, observations[1] if kind == "timeout" else np.zeros_like(last))
    assert infos[1]["error"]["kind"] == kind
    assert env.reset_infos[1]["decision_index"] == 0
    env.close()


def test_attributes_and_methods_of_some_environments(varied: str) -> None:
    env = adapted(INLINE, varied, 3, render_mode="ansi")
    env.reset()
    assert env.render_mode == "ansi"
    assert env.get_attr("metric") == ["text"] * 3
    assert env.get_attr("metric", indices=[0, 2]) == ["text"] * 2
    assert not env.has_attr("no_such_attribute")
    assert [text.startswith("inlining decision 0 of") for text in env.env_method("render", indices=1)] == [True]
    assert env.env_is_wrapped(gym.Wrapper, indices=[0, 1]) == [False, False]
    assert env.env_is_wrapped(Monitor) == [True] * 3
    env.step(np.array([0, 1, 1]))
    assert env.env_method("state", indices=[1])[0].actions == (1,)
    env.set_attr("label", "second", indices=1)
    assert env.get_attr("label", indices=1) == ["second"]
    assert not env.has_attr("label")
    for refused in (lambda: env.set_attr("metric", "object"), lambda: env.env_method("step", 1)):
        with pytest.raises(MlgoError, match=r"cannot set 'metric'|got 'step'; call"):
            refused()
    env.close()


def test_changing_rows_train_only_with_a_callback_or_on_request(varied: str) -> None:
    env = adapted(INLINE, varied, 3, batch_size=1, credit=True, max_decisions=2)
    agent = ppo(env, 16, 8)
    agent.learn(16, callback=CreditAdvantages())
    with pytest.raises(MlgoError, match="expected the callback CreditAdvantages with batch_size 1 of 3 environments"):
        agent.learn(16)
    env.rows_change = True
    agent.learn(16)
    env.close()


def test_credit_that_would_train_nothing_is_refused(varied: str) -> None:
    for algorithm, sizes, credit, message in (
        (PPO, {"n_steps": 8, "batch_size": 8}, False, r"expected info\['rewards'\] at the end of .*credit=True"),
        (DQN, {}, True, "expected PPO or A2C for CreditAdvantages, got DQN"),
    ):
        env = adapted(INLINE, varied, max_decisions=2, credit=credit)
        with pytest.raises(MlgoError, match=message):
            algorithm("MlpPolicy", env, device="cpu", **sizes).learn(16, callback=CreditAdvantages())
        env.close()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"autoreset_mode": "NextStep"}, "expected autoreset_mode 'SameStep', got 'NextStep'"),
        ({"autoreset_mode": "SameStep", "observation": "graph"}, "expected observation='flat' for stable-baselines3"),
        ({"autoreset_mode": "SameStep", "batch_size": 1}, r"expected wrappers with recv\(\) for batch_size 1 of 2"),
    ],
    ids=str,
)
def test_an_unsuitable_environment_is_refused(options: dict[str, Any], message: str, varied: str) -> None:
    envs = make(INLINE, varied, 2, **options)
    with pytest.raises(MlgoError, match=message):
        VecEnvAdapter(gym.wrappers.vector.TransformReward(envs, lambda reward: reward))
    envs.close()


def test_gymnasiums_wrappers_are_kept_and_its_vector_environments_refused(varied: str) -> None:
    envs = make(INLINE, varied, 2, autoreset_mode="SameStep")
    env = VecEnvAdapter(gym.wrappers.vector.TransformReward(envs, lambda reward: reward + 1))
    env.reset()
    assert env.step(np.array([1, 1]))[1].min() >= 0.9
    env.close()
    with pytest.raises(MlgoError, match=r"expected one of gymnasium.make_vec, got SyncVectorEnv"):
        VecEnvAdapter(make_sync(INLINE, varied))


# Curves


def test_reductions_and_failures_are_curves_of_tensorboard(varied: str, tmp_path: Path) -> None:
    settings = {"n_steps": 32, "batch_size": 32, "device": "cpu", "tensorboard_log": str(tmp_path)}
    agent: Any = PPO("MlpPolicy", adapted(INLINE, varied, max_decisions=3), **settings)
    agent.learn(64, callback=ReductionLogger(episodes=1000))
    agent.env.close()
    (folder,) = tmp_path.iterdir()
    accumulator = importlib.import_module("tensorboard.backend.event_processing.event_accumulator")
    events = accumulator.EventAccumulator(str(folder)).Reload()
    last = {tag: events.Scalars(tag)[-1].value for tag in events.Tags()["scalars"]}
    rewards = [episode["r"] for episode in agent.ep_info_buffer]
    assert last["reduction/all"] == pytest.approx(sum(rewards) / len(rewards), rel=1e-4)
    assert last["failures/rate"] == 0


# Models that start from a network


@pytest.mark.parametrize(("outputs", "activation"), [(1, "relu"), (2, "tanh")])
def test_ppo_starts_from_a_network_and_learns(outputs: int, activation: str, varied: str) -> None:
    with gym.make(INLINE, corpus=varied) as inner:
        network, rows = featured_network(inner, outputs, activation)
        normal = network.normalization
        assert normal is not None
        wrapped = NormalizeFeatures(inner, normal)
        model = start_sb3(PPO, wrapped, network, n_steps=32, batch_size=32, seed=0, device="cpu")
        actions, _ = model.predict(normal(rows), deterministic=True)
        assert set(actions.tolist()) == {0, 1}
        assert (actions == decisions(network, rows)).mean() > 0.99  # ties may differ
        assert decisions(read_sb3(model, network), rows) == decisions(network, rows)
        before = model.policy.action_net.weight.clone()
        model.learn(32)
        assert not (model.policy.action_net.weight == before).all()


def test_maskable_ppo_starts_from_a_network(varied: str) -> None:
    with gym.make(EVICT, corpus=varied) as inner:
        network, rows = featured_network(inner, 33)
        normal = network.normalization
        assert normal is not None
        wrapped = NormalizeFeatures(inner, normal)
        model = start_sb3(MaskablePPO, wrapped, network, seed=0, device="cpu")
        masks = np.random.default_rng(0).integers(0, 2, (len(rows), 33), np.int8)
        masks[:, -1] = 1
        observations = {"observations": normal(rows), "action_mask": masks}
        actions, _ = model.predict(observations, deterministic=True, action_masks=masks)
        assert len(set(actions.tolist())) > 5
        assert (actions == np.where(masks, network(rows), -np.inf).argmax(1)).mean() > 0.99


def test_other_features_and_models_without_an_actor_are_refused(varied: str) -> None:
    with gym.make(INLINE, corpus=varied) as inner:
        network, _ = featured_network(inner, 2)
        with pytest.raises(PolicyError, match=r"wrap the environment as NormalizeFeatures\(env"):
            start_sb3(PPO, inner, network)
        assert network.normalization is not None
        wrapped = NormalizeFeatures(inner, network.normalization)
        with pytest.raises(PolicyError, match="expected a model with an actor and a critic, got DQN"):
            start_sb3(DQN, wrapped, network, policy_kwargs={"net_arch": [8]}, device="cpu", buffer_size=10)


# Networks of trained models


@pytest.mark.parametrize(("algorithm", "activation"), [(PPO, "ReLU"), (DQN, "Tanh")])
def test_a_saved_network_decides_as_its_model(algorithm: Any, activation: str, varied: str, tmp_path: Path) -> None:
    kwargs = {"activation_fn": getattr(importlib.import_module("torch.nn"), activation)}
    with gym.make(INLINE, corpus=varied) as inner:
        recorded = record_observations(inner, observations=30)
        rows = np.concatenate([recorded, np.random.default_rng(0).normal(0, 50, (500, recorded.shape[1]))])
        rows = rows.astype(np.float32)
        for normal in (fit_normalization(inner, observations=30), None):
            env = inner if normal is None else NormalizeFeatures(inner, normal)
            model = algorithm("MlpPolicy", env, policy_kwargs=kwargs, seed=1, device="cpu")
            read_sb3(model, normal or env.get_wrapper_attr("feature_names")).save(tmp_path / "n.safetensors")
            policy = load_policy(f"mlp:{tmp_path}/n.safetensors", inner)
            expected, _ = model.predict(rows if normal is None else normal(rows), deterministic=True)
            assert [policy.act(row, {}) for row in rows] == expected.tolist()
            assert set(expected.tolist()) == {0, 1}


def test_a_masked_network_decides_as_its_model(varied: str, tmp_path: Path) -> None:
    with gym.make(EVICT, corpus=varied) as inner:
        normal = fit_normalization(inner, observations=20)
        env = NormalizeFeatures(inner, normal)
        model = MaskablePPO("MultiInputPolicy", env, seed=1, device="cpu")
        read_sb3(model, normal).save(tmp_path / "n.safetensors")
        policy = load_policy(f"mlp:{tmp_path}/n.safetensors", inner)
        observation, info = inner.reset(options={"module": "mixed"})
        actions, over = set(), False
        while not over:
            mask = info["action_mask"]
            expected, _ = model.predict(env.observation(observation), deterministic=True, action_masks=mask)
            action = policy.act(observation, info)
            assert action == int(expected)
            actions.add(action)
            observation, _, over, _, info = inner.step(action)
        assert len(actions) > 1


def test_a_policy_with_other_layers_has_no_network(varied: str) -> None:
    with gym.make(INLINE, corpus=varied) as inner:
        model = PPO("MlpPolicy", inner, policy_kwargs={"activation_fn": importlib.import_module("torch.nn").ELU})
        with pytest.raises(PolicyError, match="expected a policy with an activation of relu, tanh"):
            read_sb3(model, inner.get_wrapper_attr("feature_names"))
