"""Labels of a whole corpus, in several processes, with results that survive a kill."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from mlgo_gym.corpus.corpus import Corpus
from mlgo_gym.corpus.digests import training_digest
from mlgo_gym.env import CompilerEnv
from mlgo_gym.errors import MlgoError
from mlgo_gym.evaluation.environment import make_environment
from mlgo_gym.evaluation.environment_work import EnvironmentWork
from mlgo_gym.policies import Policy, load_policy
from mlgo_gym.policies.loading import policy_identity, with_calls
from mlgo_gym.policies.shipping import unpack_policy
from mlgo_gym.scheduling import Lost, Shelf
from mlgo_gym.training.each_module import each_module
from mlgo_gym.training.label_module import ModuleLabels, label_module
from mlgo_gym.training.label_store import LabelStore
from mlgo_gym.training.module_order import module_order


@dataclass(frozen=True, slots=True)
class Labelling:
    """What is to be labelled, and how.

    Attributes:
        corpus: what `open_corpus` takes.
        policy: what the labels are taken around, as `load_policy` takes it. If it sees calls, so do the labels.
        environment: the environment's id: `mlgo/Inline-v0`, or `mlgo/InlineIR2Vec-v0` for histograms of opcodes too.
        arguments: its other arguments, JSON-able; with `calls=True` labels have features of calls.
        compiles: the most compiles of each module.
        seconds: the most processor time of each module; None is no limit.
        seed: which decisions are flipped, and in which order modules are taken.
        check: so many labels of each module are measured again by a single flip.
        largest: modules with more bytes of bitcode are left out; None leaves none out.
        limit: so many modules are taken, drawn at random; None takes all.
        most: of no project more than so many are taken; None is no bound.
    """

    corpus: str
    policy: str = "default"
    environment: str = "mlgo/Inline-v0"
    arguments: Mapping[str, Any] = field(default_factory=dict)
    compiles: int = 40
    seconds: float | None = None
    seed: int = 0
    check: int = 0
    largest: int | None = None
    limit: int | None = None
    most: int | None = None

    def make(self) -> CompilerEnv:
        """Return the environment.

        Raises:
            MlgoError: it cannot be made.
        """
        return make_environment(self.environment, self._arguments)

    @property
    def _arguments(self) -> dict[str, Any]:
        return {**with_calls(self.arguments, [self.policy]), "corpus": self.corpus}

    def modules(self, env: CompilerEnv) -> list[str]:
        """Return the modules to label, in an order drawn at random, so that the first of them stand for all."""
        return self.drawn(env.corpus)

    def drawn(self, corpus: Corpus) -> list[str]:
        """Return the modules that are to be labelled of a corpus, likewise."""
        names = module_order(corpus, self.seed, self.largest)
        if self.most is not None:
            taken: Counter[tuple[str, str]] = Counter()
            for name in list(names):
                # The same project at another level counts apart.
                key = (name.partition("/")[0], corpus.project(name))
                taken[key] += 1
                if taken[key] > self.most:
                    names.remove(name)
        return names[: self.limit]

    def header(self, env: CompilerEnv) -> dict[str, Any]:
        """Return what the labels depend on."""
        return {
            "environment": self.environment,
            "arguments": with_calls(self.arguments, [self.policy]),
            "corpus": self.corpus,
            "clang": env.toolchain.identity,
            "policy": policy_identity(self.policy),
            "compiles": self.compiles,
            "seconds": self.seconds,
            "seed": self.seed,
            "check": self.check,
        }

    def run(
        self, output: Path, jobs: int | None = None, *, ray: str | None = None
    ) -> Generator[dict[str, Any], None, None]:
        """Label every module, and yield the line about each as soon as it is on disk; those of earlier runs first.

        Args:
            output: the folder of labels; modules that are finished there are not labelled again.
            jobs: how many processes; 1 by default, and with `ray` one for each processor of the cluster.
            ray: the address of a Ray cluster, as `mlgo_gym.scheduling.RayCluster` takes it, that does the work.

        Raises:
            MissingExtraError: Ray is not installed.
            MlgoError: the folder has labels of another kind, the policy does not fit the environment, or there is no
                cluster.
        """
        env = self.make()
        load_policy(self.policy, env, seed=self.seed)
        with closing(LabelStore(output, self.header(env))) as store:
            dtype = env.task.headers[0].dtype

            def keep(name: str, result: ModuleLabels | str | Lost) -> dict[str, Any]:
                project = env.corpus.project(name)
                if isinstance(result, ModuleLabels):
                    return store.add_labels(name, project, result, dtype, training_digest(env.corpus.module(name)))
                return store.fail(name, project, str(result))

            work = EnvironmentWork(self.environment, self._arguments, self.begin, [self.policy])
            yield from each_module(store, self.modules(env), partial(work.workers, env, jobs, ray=ray), keep)

    def begin(self, env: CompilerEnv, shelf: Shelf | None = None) -> Callable[[str], ModuleLabels | str]:
        """Return what labels a module by its name.

        Args:
            env: the environment.
            shelf: where the files of policies are, if this is another machine than they lie on.
        """
        spec = self.policy if shelf is None else unpack_policy(self.policy, shelf)
        return partial(self.one, env, load_policy(spec, env, seed=self.seed))

    def one(self, env: CompilerEnv, policy: Policy, name: str) -> ModuleLabels | str:
        """Return the labels of one module, or why there are none."""
        try:
            return label_module(
                env.compilation(env.corpus.module(name)),
                env.task,
                policy,
                compiles=self.compiles,
                seconds=float("inf") if self.seconds is None else self.seconds,
                seed=self.seed,
                check=self.check,
                timeout=env.setup.settings.timeout,
                calls=env.setup.settings.calls,
            )
        except MlgoError as error:
            return str(error)
