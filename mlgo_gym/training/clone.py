"""Imitation of another policy: behaviour cloning, and DAgger (Ross, Gordon and Bagnell 2011)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np
import numpy.typing as npt

from mlgo_gym.env import CompilerEnv
from mlgo_gym.errors import MlgoError
from mlgo_gym.policies import Policy, load_policy
from mlgo_gym.policies.mlp import MlpPolicy
from mlgo_gym.policies.network import Network
from mlgo_gym.policies.normalization import Floats, Normalization
from mlgo_gym.policies.observation_samples import check_flat, flat_part
from mlgo_gym.training.columns import column_features, columns_network, fit_columns, pooled_normalization
from mlgo_gym.training.curves import silent
from mlgo_gym.training.distillation import NetworkSettings, fit, to_network, torch_library
from mlgo_gym.training.features import DEFAULT

Legal = npt.NDArray[np.bool_]

_ILLEGAL = -1e9

COLUMN_WIDTH = 12
"""The hidden units for each action, where actions have features of their own."""

NETWORK = NetworkSettings(steps=2000)
"""The network that is trained unless another is asked for."""


def imitate(
    env: gym.Env[Any, Any],
    expert: str | Policy = "default",
    *,
    rounds: int = 3,
    episodes: int = 16,
    per_episode: int = 2000,
    settings: NetworkSettings = NETWORK,
    leave_out: Sequence[str] = (DEFAULT,),
    doubt: float = 0.0,
    seed: int = 0,
    note: Callable[[int, float], None] = silent,
) -> Network:
    """Return a network that decides as an expert does: where learning by trial starts.

    In the first round the expert decides; in every later round the network of the round before does, so that it learns
    what the expert would do in the states that it gets into by itself. Each network is trained on all rounds so far.
    The same seed gives the same network.

    Args:
        env: an environment of mlgo-gym with a Discrete action space and flat observations, wrapped or not; it is reset.
        expert: a policy, or what `load_policy` takes; `"default"` is clang.
        rounds: 1 is behaviour cloning alone.
        episodes: the episodes of each round; their modules are drawn from the environment's corpus.
        per_episode: at most so many decisions of one episode are kept.
        settings: the network, and for how long it is trained in each round. Where each action has features of its own,
            the hidden layers are others; see `learn_answers()`.
        leave_out: features that the network does not see. By default clang's own choice: a network that sees it learns
            to copy it, and nothing else about clang; but it agrees with clang on every module, also on unknown ones.
        doubt: the probability that the network is to give to the other legal actions together, when its outputs are
            sampled. Learning by trial explores by it: without doubt the logits of a network that makes no mistakes
            grow until no other action is ever sampled.
        seed: the modules, the first weights and the batches.
        note: called after each round with its number and how often the network agreed with the expert in it.

    Returns:
        A network with one output for each action, the logits of a softmax policy.

    Raises:
        MissingExtraError: PyTorch is not installed.
        MlgoError: the environment has other actions or observations, or a number is below 1.
    """
    torch_library()
    inner = env.unwrapped
    if not isinstance(inner, CompilerEnv) or not isinstance(inner.action_space, gym.spaces.Discrete):
        raise MlgoError(f"an environment of mlgo-gym with a Discrete action space was wanted, found {inner}")
    if min(rounds, episodes, per_episode) < 1 or not 0 <= doubt < 1:
        raise MlgoError(
            f"one or more was wanted, and doubt from 0 to below 1; found {rounds} rounds of {episodes} episodes of "
            f"{per_episode}, and {doubt:g}"
        )
    check_flat(inner.observation_space)
    teacher = load_policy(expert, env, seed=seed) if isinstance(expert, str) else expert
    columns = [number for number, name in enumerate(inner.feature_names) if name not in leave_out]
    names = tuple(inner.feature_names[number] for number in columns)
    inner.reset(seed=seed)
    observed: list[Floats] = []
    wanted: list[int] = []
    legal: list[Legal] = []
    network: Network | None = None
    for number in range(rounds):
        acting: Policy = teacher if network is None else MlpPolicy(inner, network)
        agreed = met = 0
        for _ in range(episodes):
            seen = (observed, wanted, legal)
            same, count = play_beside(inner, inner.reset(), acting, teacher, columns, seen, per_episode)
            agreed, met = agreed + same, met + count
        chosen = Answers(np.stack(observed), np.array(wanted), np.stack(legal))
        network = learn_answers(chosen, names, settings, doubt=doubt, seed=seed)
        note(number, agreed / max(met, 1))
    assert network is not None
    return network


@dataclass(frozen=True, slots=True)
class Answers:
    """Decisions with the answers that are to be learned.

    Attributes:
        observations: raw features, float32 of shape (decisions, features).
        answers: the actions, int64 of shape (decisions,).
        legal: which actions there were, bool of shape (decisions, actions).
    """

    observations: Floats
    answers: npt.NDArray[np.int64]
    legal: Legal


def learn_answers(
    given: Answers,
    names: Sequence[str],
    settings: NetworkSettings,
    *,
    doubt: float = 0.0,
    seed: int = 0,
    note: Callable[[int, float], None] = silent,
) -> Network:
    """Return a network that answers as it was told; the same one for the same seed.

    Where each action has features of its own, as in register allocation, all are scored by the same weights
    (`mlgo_gym.training.columns`), with one hidden layer.

    Args:
        given: decisions and their answers.
        names: the features.
        settings: the network, and for how long it is trained.
        doubt: see `imitate()`.
        seed: the first weights and the batches.
        note: called with step and loss now and then.

    Raises:
        MissingExtraError: PyTorch is not installed.
    """
    torch = torch_library()
    actions = given.legal.shape[1]
    answers, masks = torch.from_numpy(given.answers.astype(np.int64)), torch.from_numpy(given.legal)

    def loss(outputs: Any, chosen: Any) -> Any:
        allowed = masks[chosen]
        logits = outputs.masked_fill(~allowed, _ILLEGAL)
        surprise = -torch.nn.functional.log_softmax(logits, 1)
        right = surprise.gather(1, answers[chosen, None])[:, 0]
        # Illegal actions count for nothing, and where there is no choice there is no doubt.
        others = ((surprise * allowed).sum(1) - right) / (allowed.sum(1) - 1).clamp(min=1)
        return ((1 - doubt) * right + doubt * others).mean()

    columns = column_features(names, actions)
    if columns is not None:
        own, common = columns
        normalization = pooled_normalization(given.observations, names, own)
        rows = normalization(given.observations)
        layers = fit_columns(rows, own, common, loss, width=COLUMN_WIDTH, steps=settings.steps, seed=seed, note=note)
        return columns_network(names, normalization, layers)
    normalization = Normalization.fit(given.observations, names, "log_standard")
    inputs = torch.from_numpy(normalization(given.observations))

    def loss_of(model: Any, chosen: Any) -> Any:
        return loss(model(inputs[chosen]), chosen)

    model = fit(len(names), actions, settings, len(given.answers), loss_of, seed=seed, note=note)
    return to_network(model, tuple(names), normalization)


def play_beside(
    env: CompilerEnv,
    begun: tuple[Any, dict[str, Any]],
    acting: Policy,
    expert: Policy,
    columns: list[int],
    seen: tuple[list[Floats], list[int], list[Legal]],
    most: int,
) -> tuple[int, int]:
    """Play an episode beside an expert, and return how often both agreed, and the number of decisions.

    Args:
        env: the environment.
        begun: what its `reset()` returned.
        acting: who decides.
        expert: who is asked as well.
        columns: the features that are kept.
        seen: the lists that get, for each decision, its features, the expert's answer, and which actions there were.
        most: at most so many decisions are added to them.
    """
    observation, info = begun
    everything = np.ones(int(env.action_space.n), np.bool_)  # type: ignore[attr-defined] # imitate() has checked that
    agreed = count = 0
    over = False
    while not over:
        answer = int(expert.act(observation, info))
        action = answer if acting is expert else _legal(acting.act(observation, info), answer, info)
        if count < most:
            mask = info.get("action_mask")
            seen[0].append(flat_part(observation)[columns])
            seen[1].append(answer)
            seen[2].append(everything if mask is None else np.asarray(mask, np.bool_))
        agreed += action == answer
        count += 1
        observation, _, terminated, truncated, info = env.step(action)
        over = terminated or truncated
    return agreed, count


def _legal(action: Any, answer: int, info: Mapping[str, Any]) -> int:
    mask = info.get("action_mask")
    return int(action) if mask is None or mask[int(action)] else answer
