"""Imitation of another policy: behaviour cloning, and DAgger (Ross, Gordon and Bagnell 2011)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np

from mlgo_gym.corpus.module_order import OrderCursor
from mlgo_gym.env import CompilerEnv
from mlgo_gym.errors import MlgoError, NoDecisionError
from mlgo_gym.llvm.advisors import INLINING_DEFAULT
from mlgo_gym.policies import Policy, load_policy
from mlgo_gym.policies.mlp import MlpPolicy
from mlgo_gym.policies.network import Network, Normalization
from mlgo_gym.policies.protocol import flat_part, run_episode
from mlgo_gym.training.distillation import NetworkSettings, fitted_network, torch_library
from mlgo_gym.training.labels import Labels, joined
from mlgo_gym.training.monitor import Monitor
from mlgo_gym.training.pipeline import Collector, run_pipeline

NETWORK = NetworkSettings(steps=2000)

MAX_DECISIONS = 2000
"""Maximum number of decisions of an episode to train on, so that a large module does not weigh most."""

_ILLEGAL = -1e9


@dataclass(frozen=True, slots=True)
class Classification:
    """Fits a softmax policy to the cheapest action of each label; the policy's own action wins ties.

    Attributes:
        settings: Size and training of the network.
        label_smoothing: Probability of the other legal actions together in the targets (0 ≤ p < 1).
        seed: Source of the first weights and of the batches.
    """

    settings: NetworkSettings = field(default_factory=NetworkSettings)
    label_smoothing: float = 0.0
    seed: int = 0

    def fit(self, rounds: Sequence[Labels], monitor: Monitor) -> Network:
        """Return a network with one output per action, the logits of a softmax policy."""
        torch = torch_library()
        labels = joined(rounds)
        observations = labels.observations.astype(np.float32)
        normalization = Normalization.fit(observations, labels.features)
        inputs = torch.from_numpy(normalization(observations))
        targets = torch.from_numpy(labels.best_actions)
        legal = torch.from_numpy(~np.isposinf(labels.costs))

        def loss(module: Any, batch: Any) -> Any:
            allowed = legal[batch]
            surprise = -torch.nn.functional.log_softmax(module(inputs[batch]).masked_fill(~allowed, _ILLEGAL), 1)
            target = surprise.gather(1, targets[batch, None])[:, 0]
            # Illegal actions do not count, nor does smoothing where only one action is legal.
            others = ((surprise * allowed).sum(1) - target) / (allowed.sum(1) - 1).clamp(min=1)
            return ((1 - self.label_smoothing) * target + self.label_smoothing * others).mean()

        widths = [len(labels.features), *self.settings.hidden, labels.costs.shape[1]]
        with monitor.stage("network", self.settings.steps) as advance:
            options: dict[str, Any] = {"seed": self.seed, "advance": advance}
            return fitted_network(widths, loss, normalization, len(inputs), self.settings.steps, **options)


def imitate(
    env: gym.Env[Any, Any],
    expert: str | Policy = "default",
    *,
    rounds: int = 3,
    episodes: int = 16,
    settings: NetworkSettings = NETWORK,
    exclude_features: Sequence[str] = (INLINING_DEFAULT,),
    label_smoothing: float = 0.0,
    seed: int = 0,
    output: Path | None = None,
    monitor: Monitor | None = None,
) -> Network:
    """Return a network that imitates an expert: a start for reinforcement learning.

    The expert acts in the first round. In later rounds the network of the round before acts, and the expert labels the
    states that it reaches (DAgger). Each network is trained on all rounds so far. The same seed gives the same network.

    Args:
        env: An environment of mlgo-gym with a Discrete action space, wrapped or not; it is reset.
        expert: A policy, or a specification as `load_policy` takes it; `"default"` is clang.
        rounds: Number of rounds (≥ 1); 1 is behaviour cloning alone.
        episodes: Episodes per round (≥ 1); their modules are drawn from the environment's corpus.
        settings: Size and training of the network.
        exclude_features: Features that the network does not see. Default: clang's own choice, because a network that
            sees it learns to copy it and nothing else; such a network agrees with clang on every module.
        label_smoothing: Probability of the other legal actions together in the targets (0 ≤ p < 1). A fully confident
            clone does not explore, so reinforcement learning needs some.
        seed: Source of the modules, the first weights and the batches.
        output: File for the network. Default: nothing is written.
        monitor: Receives the progress, and for each round the result `rollouts` with `agreement`, the share of
            decisions in which the acting policy and the expert agree.

    Returns:
        A network with one output per action, the logits of a softmax policy.

    Raises:
        MissingExtraError: PyTorch is not installed.
        MlgoError: the environment has other actions, a number is out of range, or no module of the corpus has a
            decision.
    """
    if min(rounds, episodes) < 1 or not 0 <= label_smoothing < 1:
        raise MlgoError(
            f"expected rounds and episodes ≥ 1 and 0 ≤ label_smoothing < 1, got {rounds}, {episodes} and "
            f"{label_smoothing:g}"
        )
    inner = env.unwrapped
    if not isinstance(inner, CompilerEnv) or not isinstance(inner.action_space, gym.spaces.Discrete):
        raise MlgoError(f"expected an environment of mlgo-gym with a Discrete action space, got {inner}; make another")
    columns = tuple(column for column, name in enumerate(inner.feature_names) if name not in exclude_features)
    torch_library()
    if isinstance(expert, str):
        expert = load_policy(expert, inner, seed=seed)
    collect = expert_rollouts(inner, expert, columns, episodes, seed)
    fit = Classification(settings, label_smoothing, seed)
    return run_pipeline(collect, fit.fit, rounds=rounds, output=output, monitor=monitor)


class _Episode(NamedTuple):
    """The labelled decisions of an episode, and how many of all its decisions agreed with the expert."""

    observations: Any
    actions: Any
    costs: Any
    agreed: int
    decisions: int


def expert_rollouts(env: CompilerEnv, expert: Policy, columns: tuple[int, ...], episodes: int, seed: int) -> Collector:
    """Return the collector of `imitate()`, whose arguments these are; `columns` are the features of the network.

    It collects the actions of an expert in the states that a network reaches: the expert's action costs 0, and the cost
    of others is unknown. The module of an episode depends on its number and on the seed.
    """

    def collect(round_index: int, network: Network | None, monitor: Monitor) -> Labels:
        acting = expert if network is None else MlpPolicy(env, network)
        without, names, recorded = set[int](), list[str](), list[_Episode]()
        with monitor.stage("rollouts", episodes) as advance:
            for index in range(episodes):
                source = np.random.SeedSequence([seed, round_index, index])
                generator, episode_seed = np.random.default_rng(source), int(source.generate_state(1)[0])
                episode = None
                while episode is None:
                    position = env.setup.order.draw(generator, OrderCursor(), without)
                    if position is None:
                        raise MlgoError("expected a corpus with decisions, got none in any module; choose another one")
                    name = env.corpus.names[position]
                    episode = _run(env, expert, acting, columns, name, episode_seed)
                    if episode is None:
                        without.add(position)
                names.append(name)
                recorded.append(episode)
                advance(len(names))
        agreement = sum(episode.agreed for episode in recorded) / sum(episode.decisions for episode in recorded)
        monitor.record("rollouts", agreement=agreement, modules_without_decisions=len(without))
        observations, actions, costs = (np.concatenate(parts) for parts in list(zip(*recorded, strict=True))[:3])
        sizes, one = [len(episode.actions) for episode in recorded], np.ones(len(actions))
        digests = [env.corpus.module(name).source_digest() for name in names]
        groups, modules, digest = (np.repeat(values, sizes) for values in (range(len(names)), names, digests))
        features = tuple(env.feature_names[column] for column in columns)
        return Labels(features, observations, actions, costs, one, one, groups, modules, digest)

    return collect


def _run(
    env: CompilerEnv, expert: Policy, acting: Policy, columns: tuple[int, ...], module: str, seed: int
) -> _Episode | None:
    """Return the labelled decisions of an episode; None if the module has none."""
    assert isinstance(env.action_space, gym.spaces.Discrete)
    all_legal = np.ones(int(env.action_space.n), np.int8)
    rows, actions, costs = [], [], []
    agreed: list[bool] = []

    def choose(observation: Any, info: Mapping[str, Any]) -> int:
        label = int(expert.act(observation, info))
        legal = info.get("action_mask", all_legal)
        action = label if acting is expert else int(acting.act(observation, info))
        if not legal[action]:
            action = label
        if len(agreed) < MAX_DECISIONS:
            rows.append(flat_part(observation)[list(columns)])
            actions.append(label)
            costs.append(np.where(legal, np.nan, np.inf))
            costs[-1][label] = 0.0
        agreed.append(action == label)
        return action

    try:
        run_episode(env, choose, seed=seed, options={"module": module})
    except NoDecisionError:
        return None
    return _Episode(np.stack(rows), np.array(actions, np.int64), np.stack(costs), sum(agreed), len(agreed))
