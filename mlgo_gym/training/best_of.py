"""The best of several baselines for each module, imitated: learning from whoever did best.

Marinov, Agarwal and Trofin, "Offline Imitation Learning from Multiple Baselines with Applications to Compiler
Optimization" (2024): each module is compiled by each baseline, and a network learns the decisions of the best. Here the
decisions of inlining are also mixed function by function, and register allocation is taken function by function.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

from mlgo_gym.env import CompilerEnv
from mlgo_gym.errors import MlgoError
from mlgo_gym.evaluation.environment import make_environment
from mlgo_gym.evaluation.environment_work import EnvironmentWork
from mlgo_gym.llvm.advisors import INLINING
from mlgo_gym.policies.loading import with_calls
from mlgo_gym.policies.network import Network
from mlgo_gym.policies.observation_samples import check_flat
from mlgo_gym.policies.shipping import unpack_policy
from mlgo_gym.scheduling import Lost, Shelf
from mlgo_gym.training.answer_store import AnswerStore
from mlgo_gym.training.baselines import Place, PlacedAnswers, Played, baseline_identity, baseline_policy, play
from mlgo_gym.training.clone import NETWORK, Answers, learn_answers
from mlgo_gym.training.curves import silent
from mlgo_gym.training.distillation import NetworkSettings
from mlgo_gym.training.each_module import each_module
from mlgo_gym.training.features import raw_features
from mlgo_gym.training.mixing import mix
from mlgo_gym.training.module_order import module_order

MIXED = "mixed"
"""The name of the decisions that take for each function those of the baseline that made it smallest."""


@dataclass(frozen=True, slots=True)
class BestOf:
    """Which baselines compile which modules.

    Attributes:
        corpus: what `open_corpus` takes.
        baselines: policies as `load_policy` takes them, `recipes:FOLDER` for what a search found, and `look-ahead:N`
            for who tries N other actions at each decision; where two are equally good, the first is imitated. They may
            see calls; the network does not.
        environment: the environment's id; its actions are discrete.
        arguments: its other arguments, JSON-able.
        seed: what random policies and `limit` depend on.
        largest: modules with more bytes of bitcode are left out; None leaves none out.
        limit: so many modules are taken, drawn at random; None takes all.
    """

    corpus: str
    baselines: tuple[str, ...]
    environment: str = "mlgo/Inline-v0"
    arguments: Mapping[str, Any] = field(default_factory=dict)
    seed: int = 0
    largest: int | None = None
    limit: int | None = None

    def __post_init__(self) -> None:
        if not self.baselines or len(set(self.baselines)) < len(self.baselines):
            raise MlgoError(f"different baselines were wanted, found {self.baselines}")

    def make(self) -> CompilerEnv:
        """Return the environment: inlining with credit, register allocation function by function.

        Raises:
            MlgoError: it cannot be made, or its actions are not discrete.
        """
        env = make_environment(self.environment, {**self.arguments, "corpus": self.corpus})
        if not isinstance(env.action_space, gym.spaces.Discrete):
            raise MlgoError(f"discrete actions were wanted, and those of {self.environment} are {env.action_space}")
        check_flat(env.observation_space)
        arguments = self._arguments_of(env)
        if arguments == self.arguments:
            return env
        return make_environment(self.environment, {**arguments, "corpus": env.corpus})

    def _arguments_of(self, env: CompilerEnv) -> dict[str, Any]:
        """Return the arguments of the environment but for its corpus."""
        arguments = with_calls(self.arguments, self.baselines)
        if env.task.advisors == (INLINING,):
            return {"credit": True, **arguments}
        return {**({"scope": "function"} if env.task.has_contexts else {}), **arguments}

    def modules(self, env: CompilerEnv) -> list[str]:
        """Return the modules to compile, in an order drawn at random, so that the first of them stand for all."""
        return module_order(env.corpus, self.seed, self.largest)[: self.limit]

    def run(
        self, output: Path, jobs: int | None = None, *, ray: str | None = None
    ) -> Generator[dict[str, Any], None, None]:
        """Let every baseline compile every module, and yield a line about each module; those of earlier runs first.

        Args:
            output: the folder of answers; modules that are finished there are not compiled again.
            jobs: how many processes; 1 by default, and with `ray` one for each processor of the cluster.
            ray: the address of a Ray cluster, as `mlgo_gym.scheduling.RayCluster` takes it, that does the work.

        Yields:
            `module`, `project`, `decisions`; `wins`, how often each baseline was imitated; `rewards`, what each
            reached, on the average of the module's episodes, and `best`, what is imitated; or `error`.

        Raises:
            MissingExtraError: Ray is not installed.
            MlgoError: the folder has answers of another kind, a baseline does not fit the environment, or there is no
                cluster.
        """
        env = self.make()
        with closing(AnswerStore(output, self._header(env))) as store:

            def keep(name: str, result: tuple[dict[str, Any], Answers | None] | Lost) -> dict[str, Any]:
                if isinstance(result, Lost):
                    result = {**_nothing(env, name), "error": str(result)}, None
                store.add_answers(*result)
                return result[0]

            arguments = {**self._arguments_of(env), "corpus": self.corpus}
            work = EnvironmentWork(self.environment, arguments, self.begin, self.baselines)
            yield from each_module(store, self.modules(env), partial(work.workers, env, jobs, ray=ray), keep)

    def learn(
        self,
        output: Path,
        settings: NetworkSettings = NETWORK,
        *,
        per_module: int = 2000,
        doubt: float = 0.0,
        note: Callable[[int, float], None] = silent,
    ) -> Network:
        """Return a network that imitates the answers in a folder, where `run()` has put them.

        Args:
            output: the folder.
            settings: the network, and for how long it is trained.
            per_module: at most so many decisions of a module, drawn at random, so that large ones do not drown others.
            doubt: see `imitate()`.
            note: called with step and loss now and then.

        Raises:
            MissingExtraError: PyTorch is not installed.
            MlgoError: there are no answers, or they are of another kind.
        """
        env = self.make()
        names = raw_features(env.feature_names)
        columns = [env.feature_names.index(name) for name in names]
        chance = np.random.default_rng(self.seed)
        parts: list[Answers] = []
        with closing(AnswerStore(output, self._header(env))) as store:
            # Several processes finish modules in any order; what is learned must not depend on it.
            for name, line in sorted(store.done.items()):
                if line.get("decisions"):
                    there = store.read(name)
                    chosen = np.arange(len(there.answers))
                    if len(chosen) > per_module:
                        chosen = np.sort(chance.choice(chosen, per_module, replace=False))
                    rows = there.observations[chosen][:, columns]
                    parts.append(Answers(rows, there.answers[chosen], there.legal[chosen]))
        if not parts:
            raise MlgoError(f"{output} has no answer; let a baseline finish a module with decisions first")
        together = Answers(
            np.concatenate([part.observations for part in parts]),
            np.concatenate([part.answers for part in parts]),
            np.concatenate([part.legal for part in parts]),
        )
        return learn_answers(together, names, settings, doubt=doubt, seed=self.seed, note=note)

    def _header(self, env: CompilerEnv) -> dict[str, Any]:
        return {
            "environment": self.environment,
            "arguments": dict(self.arguments),
            "corpus": self.corpus,
            "clang": env.toolchain.identity,
            "baselines": [baseline_identity(spec) for spec in self.baselines],
            "features": list(env.feature_names),
            "seed": self.seed,
        }

    def begin(
        self, env: CompilerEnv, shelf: Shelf | None = None
    ) -> Callable[[str], tuple[dict[str, Any], Answers | None]]:
        """Return what lets the baselines compile a module by its name.

        Args:
            env: the environment.
            shelf: where the files of baselines are, if this is another machine than they lie on.
        """
        placed = {spec: spec if shelf is None else unpack_policy(spec, shelf) for spec in self.baselines}
        return partial(self.one, env, placed=placed)

    def one(
        self, env: CompilerEnv, name: str, placed: Mapping[str, str] | None = None
    ) -> tuple[dict[str, Any], Answers | None]:
        """Return the line about one module, and the answers to imitate in it, where it has decisions.

        Args:
            env: the environment.
            name: the module's name.
            placed: where the files of baselines are, by specification; by default where those say.
        """
        module = env.corpus.module(name)
        line = _nothing(env, name)
        best: list[tuple[str, Played]] = []
        rewards: Counter[str] = Counter()
        try:
            functions = env.decisions(module)
            scopes: Sequence[str | None] = (
                [*functions] if env.setup.settings.scope == "function" else [None] * bool(functions)
            )
            policies = {
                spec: baseline_policy((placed or {}).get(spec, spec), env, module, self.seed) for spec in self.baselines
            }
            for function in scopes:
                options = {"module": name} | ({} if function is None else {"function": function})
                plays = {spec: play(env, policy, options) for spec, policy in policies.items() if policy is not None}
                if not plays:
                    continue
                if function is None and len(plays) > 1:
                    mixed = mix(plays, partial(_play_placed, env, options))
                    plays |= {} if mixed is None else {MIXED: mixed}
                rewards.update({spec: played.reward for spec, played in plays.items()})
                best.append(max(plays.items(), key=lambda item: item[1].reward))
        except MlgoError as error:
            return {**line, "error": str(error)}, None
        if not best:
            return line, None
        chosen = [played.answers for _, played in best]
        answers = Answers(
            np.concatenate([each.observations for each in chosen]),
            np.concatenate([each.answers for each in chosen]),
            np.concatenate([each.legal for each in chosen]),
        )
        line |= {
            "decisions": len(answers.answers),
            "wins": dict(Counter(spec for spec, _ in best)),
            "rewards": {spec: reward / len(best) for spec, reward in rewards.items()},
            "best": sum(played.reward for _, played in best) / len(best),
        }
        return line, answers


def _nothing(env: CompilerEnv, name: str) -> dict[str, Any]:
    """Return the line about a module in which nothing is decided."""
    return {"module": name, "project": env.corpus.project(name), "decisions": 0}


def _play_placed(env: CompilerEnv, options: Mapping[str, Any], answers: Mapping[Place, int]) -> Played:
    return play(env, PlacedAnswers(answers), options)
