"""Imitation of another policy on a corpus, whose episodes several workers play."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np

from mlgo_gym.env import CompilerEnv
from mlgo_gym.errors import MlgoError, NoDecisionError
from mlgo_gym.evaluation.environment import make_environment
from mlgo_gym.evaluation.environment_work import EnvironmentWork
from mlgo_gym.policies import Policy, load_policy
from mlgo_gym.policies.loading import with_calls
from mlgo_gym.policies.mlp import MlpPolicy
from mlgo_gym.policies.network import Network
from mlgo_gym.policies.observation_samples import check_flat
from mlgo_gym.policies.shipping import unpack_policy
from mlgo_gym.scheduling import Backlog, Lost, Shelf
from mlgo_gym.training.clone import NETWORK, Answers, learn_answers, play_beside
from mlgo_gym.training.curves import silent
from mlgo_gym.training.distillation import NetworkSettings, torch_library
from mlgo_gym.training.features import DEFAULT


class _Episode(NamedTuple):
    """An episode of a round, the module that it is to be about, and who decides in it: the expert, or a network."""

    number: int
    module: str
    network: bytes | None


class _Seen(NamedTuple):
    """The decisions of an episode with the expert's answers, how often who decided agreed, and how many there were."""

    answers: Answers
    agreed: int
    met: int


@dataclass(frozen=True, slots=True)
class Cloning:
    """What is imitated on what, and how; `imitate()` says what the numbers mean.

    The modules of an episode are drawn by its number, so that the same seed gives the same network with any workers.

    Attributes:
        environment: the environment's id; its actions are Discrete, its observations flat.
        arguments: its arguments with the corpus, JSON-able.
        expert: what `load_policy` takes; `"default"` is clang. It may see calls; the network does not.
        rounds: 1 is behaviour cloning, more are DAgger.
        episodes: those of each round.
        per_episode: at most so many decisions of one are kept.
        settings: the network.
        leave_out: features that it does not see.
        doubt: how unsure it is to be.
        seed: the modules, the first weights and the batches.
    """

    environment: str
    arguments: Mapping[str, Any]
    expert: str = "default"
    rounds: int = 3
    episodes: int = 16
    per_episode: int = 2000
    settings: NetworkSettings = NETWORK
    leave_out: tuple[str, ...] = field(default=(DEFAULT,))
    doubt: float = 0.0
    seed: int = 0

    def run(
        self, jobs: int | None = None, note: Callable[[int, float], None] = silent, *, ray: str | None = None
    ) -> Network:
        """Return the network.

        Args:
            jobs: how many processes play; 1 by default, and with `ray` one for each processor of the cluster.
            note: called after each round with its number and how often who decided agreed with the expert.
            ray: the address of a Ray cluster, as `mlgo_gym.scheduling.RayCluster` takes it, that plays.

        Raises:
            MissingExtraError: PyTorch or Ray is not installed.
            MlgoError: the environment has other actions or observations, a number is below 1, no module has a decision,
                or there is no cluster.
        """
        torch_library()
        if min(self.rounds, self.episodes, self.per_episode) < 1 or not 0 <= self.doubt < 1:
            raise MlgoError(f"one or more was wanted, and doubt from 0 to below 1; found {self}")
        arguments = with_calls(self.arguments, [self.expert])
        env = make_environment(self.environment, arguments)
        if not isinstance(env.action_space, gym.spaces.Discrete):
            raise MlgoError(f"discrete actions were wanted, and those of {self.environment} are {env.action_space}")
        check_flat(env.observation_space)
        load_policy(self.expert, env, seed=self.seed)
        names = tuple(env.feature_names[number] for number in self._columns(env))
        network: Network | None = None
        everything: list[Answers] = []
        work = EnvironmentWork(self.environment, arguments, self.begin, [self.expert], _module)
        with work.workers(env, jobs, ray=ray) as running:
            for number in range(self.rounds):
                round_ = _Round(self, number, env, network)
                found: dict[int, _Seen] = {}
                with closing(running.run(round_)) as results:
                    for episode, result in results:
                        if isinstance(result, Lost):
                            raise MlgoError(f"the worker that played {episode.module!r} died: {result.how}")
                        if result is None:
                            round_.draw_another(episode)
                        else:
                            found[episode.number] = result
                seen = [found[place] for place in sorted(found)]
                everything += [each.answers for each in seen]
                together = Answers(
                    np.concatenate([each.observations for each in everything]),
                    np.concatenate([each.answers for each in everything]),
                    np.concatenate([each.legal for each in everything]),
                )
                network = learn_answers(together, names, self.settings, doubt=self.doubt, seed=self.seed)
                note(number, sum(each.agreed for each in seen) / max(sum(each.met for each in seen), 1))
        assert network is not None
        return network

    def _columns(self, env: CompilerEnv) -> list[int]:
        return [number for number, name in enumerate(env.feature_names) if name not in self.leave_out]

    def begin(self, env: CompilerEnv, shelf: Shelf | None = None) -> Callable[[_Episode], _Seen | None]:
        """Return what plays an episode.

        Args:
            env: the environment.
            shelf: where the files of policies are, if this is another machine than they lie on.
        """
        spec = self.expert if shelf is None else unpack_policy(self.expert, shelf)
        return partial(self._play, env, load_policy(spec, env, seed=self.seed))

    def _play(self, env: CompilerEnv, expert: Policy, episode: _Episode) -> _Seen | None:
        """Return what was seen; None in a module without decisions."""
        acting = expert if episode.network is None else MlpPolicy(env, pickle.loads(episode.network))  # noqa: S301 - ours
        try:
            begun = env.reset(options={"module": episode.module})
        except NoDecisionError:
            return None
        observed: tuple[list[Any], list[int], list[Any]] = ([], [], [])
        agreed, met = play_beside(env, begun, acting, expert, self._columns(env), observed, self.per_episode)
        return _Seen(Answers(np.stack(observed[0]), np.array(observed[1]), np.stack(observed[2])), agreed, met)


class _Round(Backlog[_Episode]):
    """The episodes of a round. A module without decisions is replaced by another, drawn as the next of its episode."""

    def __init__(self, cloning: Cloning, number: int, env: CompilerEnv, network: Network | None) -> None:
        self._names = env.corpus.names
        self._network = None if network is None else pickle.dumps(network)
        self._chances = [np.random.default_rng([cloning.seed, number, place]) for place in range(cloning.episodes)]
        self._without: set[str] = set()
        super().__init__(self._draw(place) for place in range(cloning.episodes))

    def _draw(self, number: int) -> _Episode:
        return _Episode(number, str(self._names[int(self._chances[number].integers(len(self._names)))]), self._network)

    def draw_another(self, episode: _Episode) -> None:
        """Have an episode played on another module.

        Raises:
            MlgoError: no module has a decision.
        """
        self._without.add(episode.module)
        if len(self._without) == len(self._names):
            raise MlgoError("no module of the corpus has a decision; choose another corpus")
        another = episode
        while another.module in self._without:
            another = self._draw(episode.number)
        self.put_back([another])


def _module(episode: _Episode) -> str:
    return episode.module
