"""stable-baselines3 and sb3-contrib: vector environments, credit, curves, and models that start from a network."""

from __future__ import annotations

import time
import warnings
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any, TypeVar, cast

import gymnasium as gym
import numpy as np
import numpy.typing as npt
from gymnasium.vector import AutoresetMode

from mlgo_gym.episode.vector.in_process import InProcessVectorEnv, unbatch_infos
from mlgo_gym.errors import MissingExtraError, MlgoError, PolicyError
from mlgo_gym.integrations.reduction_log import ReductionLog
from mlgo_gym.policies.network import Network, Normalization
from mlgo_gym.policies.protocol import MASK
from mlgo_gym.vector_env import CompilerVectorEnv

try:
    from stable_baselines3.common.callbacks import BaseCallback
    from stable_baselines3.common.monitor import Monitor
    from stable_baselines3.common.on_policy_algorithm import OnPolicyAlgorithm
    from stable_baselines3.common.vec_env.base_vec_env import VecEnv, VecEnvIndices, VecEnvObs, VecEnvStepReturn
    from torch import nn
except ImportError as error:
    raise MissingExtraError("the adapter for stable-baselines3", "sb3") from error

from mlgo_gym.integrations.pytorch import ACTIVATIONS, copy_layers, two_outputs

Model = TypeVar("Model")

__all__ = ["CreditAdvantages", "ReductionLogger", "VecEnvAdapter", "read_sb3", "start_sb3"]


class VecEnvAdapter(VecEnv):
    """A vector environment as a `VecEnv`, with the action masks of sb3-contrib.

    ```python
    envs = gym.make_vec("mlgo/RegAllocEvict-v0", num_envs=4, autoreset_mode="SameStep")
    model = MaskablePPO("MultiInputPolicy", VecEnvAdapter(envs))
    ```

    At the end of an episode the info is that of its last step, with `terminal_observation`, `TimeLimit.truncated` and
    `episode`, the total reward and length as of `VecMonitor`. `reset_infos` has the info of the next episode's first
    decision. `seed()` and `set_options()` apply to the next `reset()`.

    With a `batch_size` below the number of environments nobody waits for the slowest compile: the rows of a step are
    the environments that are ready first, `env_ids`, and these differ from step to step. The reward of a row then
    belongs to another environment than the action before it. So a step needs the callback `CreditAdvantages`, which
    finds the decisions of each episode. `seed()` and `set_options()` of the first row then apply to all environments.

    Args:
        envs: a vector environment with `autoreset_mode="SameStep"`, in Gymnasium's wrappers or not. With a smaller
            `batch_size` the wrappers have `async_reset()` and `recv()`, as those of `mlgo_gym.integrations.vector`.

    Attributes:
        env_ids: Index of the environment of each row, int64 of shape (rows,).
        rows_change: Whether the caller reads `env_ids`, so that rows may change; `CreditAdvantages` sets it.

    Raises:
        MlgoError: It has another mode, observations are graphs, or wrappers lack `recv()` for a smaller `batch_size`.
    """

    def __init__(self, envs: gym.vector.VectorEnv[Any, Any, Any]) -> None:
        inner = envs.unwrapped
        if not isinstance(inner, InProcessVectorEnv):
            raise MlgoError(f"expected one of gymnasium.make_vec, got {type(inner).__name__}; use DummyVecEnv")
        self._inner = inner
        if inner.autoreset_mode is not AutoresetMode.SAME_STEP:
            raise MlgoError(
                f"expected autoreset_mode 'SameStep', got {inner.autoreset_mode.value!r}; make the environment with "
                'autoreset_mode="SameStep"'
            )
        if isinstance(inner.single_observation_space, gym.spaces.Graph):
            raise MlgoError("expected observation='flat' for stable-baselines3, got 'graph'; use PyTorch Geometric")
        rows = inner.batch_size if isinstance(inner, CompilerVectorEnv) else envs.num_envs
        self.rows_change = False
        self._any_order = rows < envs.num_envs
        if self._any_order and not hasattr(envs, "recv"):
            raise MlgoError(
                f"expected wrappers with recv() for batch_size {rows} of {envs.num_envs} environments, got {envs}; "
                "omit batch_size, or use wrappers of mlgo_gym.integrations.vector"
            )
        self.envs = cast("CompilerVectorEnv", envs)  # wrappers have its reset() and step()
        self.env_ids: npt.NDArray[np.int64] = np.arange(rows)
        self._actions: npt.NDArray[Any] = np.empty(0)
        self._totals, self._lengths = np.zeros(envs.num_envs), np.zeros(envs.num_envs, np.int64)
        self._start = time.monotonic()
        super().__init__(rows, envs.single_observation_space, envs.single_action_space)

    def reset(self) -> VecEnvObs:
        """Start an episode in every environment; return the first observations, one row each."""
        seeds: Any = None if self._seeds == [None] * self.num_envs else self._seeds
        names = {name for options in self._options for name in options}
        values: dict[str, Any] = {name: [options.get(name) for options in self._options] for name in names}
        self._totals[:], self._lengths[:] = 0, 0
        if self._any_order:
            first = {name: rows[0] for name, rows in values.items()}
            self.envs.async_reset(seed=seeds and seeds[0], options=first)
            observations, *_, info = self.envs.recv()
            self.env_ids = info["env_id"]
        else:
            observations, info = self.envs.reset(seed=seeds, options=values)
        self.reset_infos = unbatch_infos(info, self.num_envs)
        self._reset_seeds()
        self._reset_options()
        batch: VecEnvObs = observations
        return batch

    def step_async(self, actions: npt.NDArray[Any]) -> None:
        """Keep the actions, one per row, for `step_wait()`."""
        if self._any_order and not self.rows_change:
            raise MlgoError(
                f"expected the callback CreditAdvantages with batch_size {self.num_envs} of {self.envs.num_envs} "
                "environments, got none; pass it to learn(), or omit batch_size"
            )
        self._actions = actions

    def step_wait(self) -> VecEnvStepReturn:
        """Return observations, rewards (float32), whether each episode has ended (bool), and one info each."""
        self._lengths[self.env_ids] += 1
        if self._any_order:
            self.envs.send(self._actions, self.env_ids)
            observations, rewards, terminations, truncations, info = self.envs.recv()
            self.env_ids = info["env_id"]
        else:
            observations, rewards, terminations, truncations, info = self.envs.step(self._actions)
        self._totals[self.env_ids] += rewards
        dones = terminations | truncations
        infos = unbatch_infos(info, self.num_envs)
        for row in np.flatnonzero(dones).tolist():
            first, env_id = infos[row], self.env_ids[row]
            reward, seconds = round(float(self._totals[env_id]), 6), round(time.monotonic() - self._start, 6)
            statistics = {"r": reward, "l": int(self._lengths[env_id]), "t": seconds}
            self._totals[env_id], self._lengths[env_id] = 0, 0
            last = {"terminal_observation": first.pop("final_obs"), "episode": statistics}
            infos[row] = {**first.pop("final_info"), **last}
            self.reset_infos[row] = first
        for info, termination, truncation in zip(infos, terminations, truncations, strict=True):
            info["TimeLimit.truncated"] = bool(truncation and not termination)
        return observations, rewards.astype(np.float32), dones, infos

    def close(self) -> None:
        """End every compile. Idempotent."""
        self.envs.close()

    def get_attr(self, attr_name: str, indices: VecEnvIndices = None) -> list[Any]:
        """Return an attribute of some environments; default: all."""
        return self._inner.get_some(self._ids_of_rows(indices), attr_name)

    def set_attr(self, attr_name: str, value: Any, indices: VecEnvIndices = None) -> None:
        """Set an attribute of some environments to a value.

        Raises:
            MlgoError: the environments share the attribute.
        """
        env_ids = self._ids_of_rows(indices)
        self._inner.set_some(env_ids, attr_name, [value] * len(env_ids))

    def env_method(
        self, method_name: str, *method_args: Any, indices: VecEnvIndices = None, **method_kwargs: Any
    ) -> list[Any]:
        """Return the results of a method of some environments; `action_masks` is all ones if every action is legal.

        Raises:
            MlgoError: the method would advance an environment, such as `step`; or `action_masks` of continuous actions.
        """
        if method_name == "action_masks" and not isinstance(self.action_space, gym.spaces.Discrete):
            raise MlgoError(f"expected discrete actions for action_masks, got {self.action_space}")
        return self._inner.call_some(self._ids_of_rows(indices), method_name, *method_args, **method_kwargs)

    def _ids_of_rows(self, indices: VecEnvIndices) -> list[int]:
        """Return the indices of the environments of some rows."""
        return [int(self.env_ids[row]) for row in self._get_indices(indices)]

    def env_is_wrapped(
        self, wrapper_class: type[gym.Wrapper[Any, Any, Any, Any]], indices: VecEnvIndices = None
    ) -> list[bool]:
        """Return whether the class is `Monitor`, whose `info["episode"]` the adapter adds; no other wraps them."""
        return [wrapper_class is Monitor for _ in self._get_indices(indices)]


class CreditAdvantages(BaseCallback):
    """Trains PPO or A2C on the credit of each decision instead of the reward at the end of an episode.

    The environments are made with `credit=True`. After each rollout the callback sets the advantages of the decisions
    of ended episodes to their reward (`info["rewards"]`) minus the critic's value, without anything that follows later.
    The decisions of a failed episode share its `error_reward` equally. Advantages of unfinished episodes are 0. A
    rollout without an ended episode warns.

    ```python
    envs = gym.make_vec("mlgo/Inline-v0", num_envs=12, batch_size=4, autoreset_mode="SameStep", credit=True)
    agent = PPO("MlpPolicy", VecEnvAdapter(envs))
    agent.learn(100_000, callback=CreditAdvantages())
    ```

    Args:
        clip: Largest absolute credit, in standard deviations of the credits of a rollout (> 0).

    Raises:
        MlgoError: the algorithm is neither PPO nor A2C, or an episode ends without rewards of its decisions.
    """

    def __init__(self, clip: float = 5.0) -> None:
        super().__init__()
        self._clip = clip

    def _on_training_start(self) -> None:
        if not isinstance(self.model, OnPolicyAlgorithm):
            raise MlgoError(f"expected PPO or A2C for CreditAdvantages, got {type(self.model).__name__}; omit it")
        self._buffer: Any = self.model.rollout_buffer
        self._set_rows_change(True)

    def _on_training_end(self) -> None:
        self._set_rows_change(False)

    def _set_rows_change(self, value: bool) -> None:
        adapter = self.training_env.unwrapped
        if isinstance(adapter, VecEnvAdapter):
            adapter.rows_change = value

    def _on_rollout_start(self) -> None:
        self._steps = self._ended = 0
        self._credits = np.full((self._buffer.buffer_size, self._buffer.n_envs), np.nan, np.float32)
        self._cells: dict[int, list[tuple[int, int]]] = defaultdict(list)
        self._shown = self._env_ids()

    def _on_step(self) -> bool:
        for row, env_id in enumerate(self._shown):
            self._cells[env_id].append((self._steps, row))
        self._steps, self._shown = self._steps + 1, self._env_ids()
        for row in np.flatnonzero(self.locals["dones"]).tolist():
            info, cells = self.locals["infos"][row], self._cells.pop(self._shown[row], [])
            self._ended += 1
            if "rewards" not in info:
                raise MlgoError(
                    "expected info['rewards'] at the end of an episode, got none; make the environments with "
                    "credit=True and info='full'"
                )
            if cells:
                # The episode may have begun before this rollout; a failed one shares `error_reward` equally.
                self._credits[tuple(np.transpose(cells))] = info["rewards"][-len(cells) :]
        return True

    def _env_ids(self) -> list[int]:
        rows = np.arange(self.training_env.num_envs)
        env_ids: list[int] = getattr(self.training_env, "env_ids", rows).tolist()
        return env_ids

    def _on_rollout_end(self) -> None:
        buffer = self._buffer
        if not self._ended:
            warnings.warn(
                f"no episode ended in a rollout of {buffer.buffer_size} steps, so no decision has an advantage; raise "
                "n_steps, or make the environments with a smaller max_decisions",
                stacklevel=2,
            )
        known = ~np.isnan(self._credits)
        deviation = float(self._credits[known].std()) if known.any() else 0.0
        targets = np.clip(self._credits / max(deviation, 1e-8), -self._clip, self._clip)
        buffer.returns = np.where(known, targets, buffer.values)
        buffer.advantages = buffer.returns - buffer.values


class ReductionLogger(BaseCallback):
    """Logs the curves of `mlgo_gym.integrations.ReductionLog`.

    The logger of Stable-Baselines3 writes them, to TensorBoard with `tensorboard_log=`. Weights & Biases copies them
    with `wandb.init(sync_tensorboard=True)`.

    ```python
    agent = PPO("MlpPolicy", VecEnvAdapter(envs), tensorboard_log="runs")
    agent.learn(100_000, callback=[CreditAdvantages(), ReductionLogger()])
    ```

    Args:
        episodes: Number of ended episodes per writing (≥ 1).
    """

    def __init__(self, episodes: int = 100) -> None:
        super().__init__()
        self._log = ReductionLog(self._write, episodes)

    def _on_step(self) -> bool:
        for info, done in zip(self.locals["infos"], self.locals["dones"], strict=True):
            self._log(bool(done), info)
        return True

    def _on_training_end(self) -> None:
        self._log.flush()

    def _write(self, curves: dict[str, float]) -> None:
        for name, value in curves.items():
            self.logger.record(name, value)
        self.logger.dump(self.num_timesteps)


def start_sb3(algorithm: Callable[..., Model], env: Any, network: Network, **settings: Any) -> Model:
    """Return a model whose policy is a given network; the critic has layers of the same widths and random weights.

    Args:
        algorithm: `PPO`, `A2C` or `MaskablePPO`.
        env: an environment whose observations are the network's features, as from `NormalizeFeatures(env,
            network.normalization)`, alone or in a Dict beside an action mask.
        network: the initial network, with an output per action or the logit of yes.
        settings: further arguments of the algorithm; `policy_kwargs` are added to those of the network.

    Raises:
        PolicyError: the environment's features or actions differ, or the policy has no separate actor.
    """
    network = two_outputs(network)
    space = env.observation_space
    masked = isinstance(space, gym.spaces.Dict)
    _check_features(env, network, int((space["observations"] if masked else space).shape[0]))
    widths = [int(weight.shape[1]) for weight in network.weights[:-1]]
    shape = {"net_arch": {"pi": widths, "vf": widths}, "activation_fn": ACTIVATIONS[network.activation]}
    settings["policy_kwargs"] = {**shape, **settings.get("policy_kwargs", {})}
    model = algorithm("MultiInputPolicy" if masked else "MlpPolicy", env, **settings)
    mask = sum(int(part.shape[0]) for name, part in space.items() if name != "observations") if masked else 0
    copy_layers(network, _actor(model), extra_inputs=mask)
    return model


def _actor(model: Any) -> list[nn.Linear]:
    try:
        layers = [*model.policy.mlp_extractor.policy_net, model.policy.action_net]
    except AttributeError:
        name = type(model).__name__
        raise PolicyError(f"expected a model with an actor and a critic, got {name}; use PPO or A2C") from None
    return [layer for layer in layers if isinstance(layer, nn.Linear)]


def read_sb3(model: Any, like: Network | Normalization | Sequence[str]) -> Network:
    """Return the deciding network of a trained model; `save()` writes the file for `mlp:FILE`.

    Args:
        model: A PPO, A2C, DQN or MaskablePPO with `MlpPolicy` or, for an action mask, `MultiInputPolicy`.
        like: The initial network, or the normalization of the features; the names of features without one.

    Raises:
        PolicyError: The policy is no multi-layer perceptron of these features.
    """
    normalization = (
        like.normalization if isinstance(like, Network) else like if isinstance(like, Normalization) else None
    )
    names = like.features if isinstance(like, Network) else like.names if isinstance(like, Normalization) else like
    policy, critic = model.policy, getattr(model.policy, "q_net", None)
    layers = _actor(model) if critic is None else [layer for layer in critic.q_net if isinstance(layer, nn.Linear)]
    activation = next((name for name, kind in ACTIVATIONS.items() if kind is policy.activation_fn), None)
    if activation is None or any("features_extractor." in name for name, _ in policy.named_parameters()):
        raise PolicyError(
            f"expected a policy with an activation of {', '.join(ACTIVATIONS)} and no layers before it, got {policy}; "
            "export it as ONNX"
        )
    weights, biases = (
        [np.ascontiguousarray(getattr(layer, part).detach().cpu().numpy().T) for layer in layers]
        for part in ("weight", "bias")
    )
    mask = tuple(f"{MASK}[{action}]" for action in range(len(weights[0]) - len(names)))
    if normalization is not None and mask:
        center, scale = np.zeros(len(mask), np.float32), np.ones(len(mask), np.float32)
        tables = np.concatenate([center, normalization.center]), np.concatenate([scale, normalization.scale])
        normalization = Normalization((*mask, *names), *tables)
        # The mask was not normalized in training.
        weights[0][: len(mask)] /= normalization(np.ones(len(mask) + len(names), np.float32))[0]
    return Network((*mask, *names), tuple(weights), tuple(biases), activation, normalization)


def _check_features(env: Any, network: Network, count: int) -> None:
    names = getattr(getattr(env, "envs", env), "feature_names", None)
    if isinstance(env, gym.Env) and env.has_wrapper_attr("feature_names"):
        names = env.get_wrapper_attr("feature_names")
    if count != len(network.features) or (names is not None and tuple(names) != network.features):
        raise PolicyError(
            f"expected the {len(network.features)} features of the network, got {count} features, or others; wrap the "
            "environment as NormalizeFeatures(env, network.normalization)"
        )
