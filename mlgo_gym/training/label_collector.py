"""Collects labels from compiles of a corpus, around the network of the round before."""

from __future__ import annotations

import random
from collections import defaultdict, deque
from collections.abc import Callable, Generator, Mapping
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from mlgo_gym.corpus.corpus import Corpus
from mlgo_gym.corpus.training_digests import training_digest
from mlgo_gym.env import CompilerEnv
from mlgo_gym.episode.allocation_compile import can_split
from mlgo_gym.errors import MlgoError
from mlgo_gym.llvm.advisors import INLINING
from mlgo_gym.make_env import EnvironmentWork, make_environment
from mlgo_gym.policies import Policy, load_policy
from mlgo_gym.policies.loading import policy_identity, with_callee_features
from mlgo_gym.policies.model_files import unpack_policy
from mlgo_gym.policies.network import Network
from mlgo_gym.scheduling import Execution, FileStore
from mlgo_gym.training.eviction_labels import label_evictions
from mlgo_gym.training.flip_labels import label_by_flips
from mlgo_gym.training.labels import Labels, LabelStore, ModuleLabels, read_labels
from mlgo_gym.training.monitor import Monitor


@dataclass(frozen=True, slots=True)
class Labelling:
    """Labels of the decisions of a corpus, by flips.

    Attributes:
        corpus: The corpus, as `open_corpus` takes it.
        policy: Policy that the labels are taken around, as `load_policy` takes it.
        environment: Id of the environment, of inlining or of evictions.
        arguments: Other arguments of the environment, JSON-able.
        compiles: Maximum number of compiles per module (≥ 1).
        seconds: Maximum CPU time per module, in seconds. Default: no limit.
        seed: Selects the labelled decisions and the order of the modules.
        check: Number of labels per module to measure again by a single flip (≥ 0); inlining only.
        largest: Maximum size of a module, in bytes of bitcode. Default: no limit.
        limit: Number of modules, drawn at random (≥ 1). Default: all.
        max_per_project: Maximum number of modules per project (≥ 1). Default: no limit.
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
    max_per_project: int | None = None

    def make(self) -> CompilerEnv:
        """Return the environment, or raise an MlgoError if its decisions cannot be labelled."""
        arguments = with_callee_features(self.arguments, [self.policy])
        env = make_environment(self.environment, {**arguments, "corpus": self.corpus})
        if env.task.advisors != (INLINING,) and not (can_split(env.setup) and env.setup.options.scope == "module"):
            raise MlgoError(
                "expected inlining, or evictions of whole modules with a metric of functions, got "
                f"{self.environment} with metric={env.metric!r}; use mlgo/RegAllocEvict-v0 and estimated-instructions"
            )
        return env

    def modules(self, corpus: Corpus) -> list[str]:
        """Return the modules to label, in random order, so that the first ones are a sample of all."""
        return drawn_modules(corpus, self.seed, self.largest, self.limit, self.max_per_project)

    def run(self, folder: Path, execution: Execution = Execution()) -> Generator[dict[str, Any], None, None]:
        """Label every module, and yield the line about each once it is on disk; those of earlier runs first.

        Args:
            folder: Folder for the labels. Finished modules are not labelled again.
            execution: Where the compiles run. Default: this process.

        Raises:
            MissingExtraError: pyarrow or Ray is not installed.
            MlgoError: the folder has other labels, the policy does not fit the environment, or no cluster answers.
        """
        env = self.make()
        load_policy(self.policy, env, seed=self.seed)
        arguments = with_callee_features(self.arguments, [self.policy])
        header = {
            "environment": self.environment,
            "arguments": arguments,
            "corpus": self.corpus,
            "clang": env.toolchain.identity,
            "policy": policy_identity(self.policy),
            **{name: getattr(self, name) for name in ("compiles", "seconds", "seed", "check")},
        }
        with closing(LabelStore(folder, header)) as store:
            names, done = self.modules(env.corpus), store.done
            yield from (done[name] for name in names if name in done)
            waiting = [name for name in names if name not in done]
            if not waiting:
                return
            work = EnvironmentWork(self.environment, {**arguments, "corpus": self.corpus}, self._start, [self.policy])
            with work.workers(env, execution) as workers, closing(workers.run(deque(waiting))) as results:
                for name, result in results:
                    digest = training_digest(env.corpus.module(name))
                    labels = result if isinstance(result, ModuleLabels) else str(result)
                    yield store.add_labels(name, env.corpus.project(name), digest, labels)

    def _start(self, env: CompilerEnv, store: FileStore | None) -> Callable[[str], ModuleLabels | str]:
        return partial(self._label, env, load_policy(unpack_policy(self.policy, store), env, seed=self.seed))

    def _label(self, env: CompilerEnv, policy: Policy, name: str) -> ModuleLabels | str:
        """Return the labels of a module, or the reason why it has none."""
        seconds = float("inf") if self.seconds is None else self.seconds
        inlines = env.task.advisors == (INLINING,)
        label = partial(label_by_flips, check=self.check) if inlines else label_evictions
        try:
            return label(env, policy, name, compiles=self.compiles, seconds=seconds, seed=self.seed)
        except MlgoError as error:
            return str(error)


@dataclass(frozen=True, slots=True)
class LabelRounds:
    """Collects labels of a corpus; each round around the network of the round before.

    Attributes:
        labelling: The labels of a round. Its policy is that of the first round; round n adds n to its seed.
        folder: Folder for `round-N/labels` and `round-N.safetensors`. Finished modules are not labelled again.
        execution: Where the compiles run.
    """

    labelling: Labelling
    folder: Path
    execution: Execution = Execution()

    def collect(self, number: int, network: Network | None, monitor: Monitor) -> Labels:
        """Return the labels of a round."""
        labelling = replace(self.labelling, seed=self.labelling.seed + number)
        if network is not None:
            file = self.folder / f"round-{number - 1}.safetensors"
            network.save(file)
            labelling = replace(labelling, policy=f"mlp:{file}")
        labels = self.folder / f"round-{number}" / "labels"
        total = len(labelling.modules(labelling.make().corpus))
        with monitor.stage("labels", total, name=f"labels, round {number + 1}") as advance:
            for done, _ in enumerate(labelling.run(labels, self.execution), start=1):
                advance(done)
        return read_labels([labels])


def drawn_modules(
    corpus: Corpus, seed: int, largest: int | None = None, limit: int | None = None, max_per_project: int | None = None
) -> list[str]:
    """Return modules of a corpus in random order; the arguments are those of `Labelling`."""
    names = [name for name in corpus.names if largest is None or corpus.size(name) <= largest]
    random.Random(f"{seed}").shuffle(names)  # noqa: S311 - no secret
    by_project: dict[tuple[str, str], list[str]] = defaultdict(list)
    for name in names:
        # The first part of a name is the corpus with its level.
        by_project[name.partition("/")[0], corpus.project(name)].append(name)
    drawn = {name for project in by_project.values() for name in project[:max_per_project]}
    return [name for name in names if name in drawn][:limit]
