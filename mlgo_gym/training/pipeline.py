"""Labels of a corpus, and the training of a policy from them: label, fit, choose a margin, save."""

import itertools
import json
import math
import random
from collections import defaultdict, deque
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import closing
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from mlgo_gym import __version__
from mlgo_gym.cache import write_atomically
from mlgo_gym.corpus.corpus import Corpus, Module
from mlgo_gym.corpus.training_digests import sidecar, write_sidecar_digests
from mlgo_gym.env import CompilerEnv
from mlgo_gym.errors import MlgoError
from mlgo_gym.evaluation import evaluate
from mlgo_gym.identity import identity_of, module_identity
from mlgo_gym.make_env import EnvironmentWork, make_environment
from mlgo_gym.policies import Policy, load_policy
from mlgo_gym.policies.loading import file_digest, unpack_policy, with_callee_features
from mlgo_gym.policies.network import Network
from mlgo_gym.scheduling import Execution, FileStore
from mlgo_gym.storage.json_files import remove_unfinished
from mlgo_gym.training.checkpoint_choice import VALIDATION_MODULES, MarginResult, best_margin
from mlgo_gym.training.flip_labels import label_by_flips
from mlgo_gym.training.graph_labels import labels_digest
from mlgo_gym.training.labels import Labels, LabelStore, ModuleLabels, joined, read_labels
from mlgo_gym.training.margin import with_margin
from mlgo_gym.training.monitor import Monitor
from mlgo_gym.training.tree_imitation import TreeImitation

ENVIRONMENT = "mlgo/Inline-v0"


@dataclass(frozen=True, slots=True)
class Labelling:
    """Labels of the inlining decisions of a corpus, by flips.

    Attributes:
        corpus: The corpus, as `open_corpus` takes it.
        policy: Policy that the labels are taken around, as `load_policy` takes it.
        arguments: Other arguments of `mlgo/Inline-v0`, JSON-able.
        compiles: Maximum number of compiles per module (≥ 1).
        seconds: Maximum CPU time per module, in seconds. Default: no limit.
        seed: Selects the labelled decisions and the order of the modules.
        largest: Maximum size of a module, in bytes of bitcode. Default: no limit.
        limit: Number of modules, drawn at random (≥ 1). Default: all.
        max_per_project: Maximum number of modules per project (≥ 1). Default: no limit.
    """

    corpus: str
    policy: str = "default"
    arguments: Mapping[str, Any] = field(default_factory=dict)
    compiles: int = 40
    seconds: float | None = None
    seed: int = 0
    largest: int | None = None
    limit: int | None = None
    max_per_project: int | None = None

    def make(self) -> CompilerEnv:
        """Return the environment."""
        arguments = with_callee_features(self.arguments, [self.policy])
        return make_environment(ENVIRONMENT, {**arguments, "corpus": self.corpus})

    def modules(self, corpus: Corpus) -> list[str]:
        """Return the modules to label, in random order, so that the first ones are a sample of all."""
        return drawn_modules(corpus, self.seed, self.largest, self.limit, self.max_per_project)

    def run(self, folder: Path, execution: Execution = Execution()) -> Generator[dict[str, Any], None, None]:
        """Label every module, and yield the line about each once it is on disk; those of earlier runs first.

        Args:
            folder: Folder for the labels. Finished modules are not labelled again unless they failed or changed.
            execution: Where the compiles run. Default: this process.

        Raises:
            MissingExtraError: pyarrow or Ray is not installed.
            MlgoError: the folder has other labels, the policy does not fit the environment, or no cluster answers.
        """
        env = self.make()
        load_policy(self.policy, env, seed=self.seed)
        arguments = with_callee_features(self.arguments, [self.policy])
        header = identity_of(env, ENVIRONMENT, arguments, {"policy": self.policy})
        header |= {name: getattr(self, name) for name in ("corpus", "compiles", "seconds", "seed")}
        with closing(LabelStore(folder, header)) as store:
            names = self.modules(env.corpus)
            identities = {name: module_identity(env.corpus.module(name)) for name in names}
            done = {
                name: line
                for name, line in store.done.items()
                if "error" not in line and line["identity"] == identities.get(name)
            }
            yield from (done[name] for name in names if name in done)
            waiting = [name for name in names if name not in done]
            if not waiting:
                return
            work = EnvironmentWork(ENVIRONMENT, {**arguments, "corpus": self.corpus}, self._start, [self.policy])
            with work.workers(env, execution) as workers, closing(workers.run(deque(waiting))) as results:
                for name, result in results:
                    digest = env.corpus.module(name).source_digest()
                    labels = result if isinstance(result, ModuleLabels) else str(result)
                    yield store.add_labels(name, env.corpus.origin(name), digest, labels, identities[name])

    def _start(self, env: CompilerEnv, store: FileStore | None) -> Callable[[str], ModuleLabels | str]:
        return partial(self._label, env, load_policy(unpack_policy(self.policy, store), env, seed=self.seed))

    def _label(self, env: CompilerEnv, policy: Policy, name: str) -> ModuleLabels | str:
        """Return the labels of a module, or the reason why it has none."""
        seconds = float("inf") if self.seconds is None else self.seconds
        try:
            return label_by_flips(env, policy, name, compiles=self.compiles, seconds=seconds, seed=self.seed)
        except MlgoError as error:
            return str(error)


REFERENCES: Mapping[str, tuple[Labelling, str]] = {
    "mlgo/inline-graphs-v0": (
        Labelling(
            "builtin,box2d-py,brotli,hiredis,httptools,pyclipper,ujson,kiwisolver,lz4,pysimdjson,xxhash,zopfli",
            arguments={"ir": True},
            compiles=8,
            largest=60_000,
            max_per_project=12,
        ),
        "e57e6d4018450615861eb8cc9db2c82740d4e206ea8427ab1b5a28611a31612c",
    )
}
"""Frozen sets of labels with call graphs by name: how each is made, and its `labels_digest()`."""


def check_reference(name: str, folder: Path) -> None:
    """Raise an MlgoError if the labels in a folder are not those of a frozen set."""
    expected, actual = REFERENCES[name][1], labels_digest([folder])
    if actual != expected:
        raise MlgoError(
            f"expected the labels of {name}, {expected}, got {actual}; use the bundled clang of this version"
        )


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


def save_network(network: Network, file: Path, labels: Labels, validation: Iterable[Module] = ()) -> None:
    """Write a network, in safetensors, and beside it the digests of the modules that it depends on, if all are known.

    Args:
        network: The network.
        file: Its file.
        labels: All labels that it was fitted to.
        validation: Modules that its margin was chosen by.
    """
    network.save(file)
    if labels.trained_on is None:
        sidecar(file).unlink(missing_ok=True)
    else:
        write_sidecar_digests(file, labels.trained_on, validation)


@dataclass(frozen=True, slots=True)
class PolicyTraining:
    """Training of a policy from a corpus.

    Attributes:
        labelling: The labels of each round; its policy is that of the first round.
        fit: Fits the network of each round.
        rounds: Number of rounds (≥ 1).
        margins: One margin, or several to choose from by the validation split of `validation`.
        validation: Corpus at the level that the policy is for.
    """

    labelling: Labelling
    fit: TreeImitation = field(default_factory=TreeImitation)
    rounds: int = 3
    margins: tuple[float, ...] = (0.0,)
    validation: str = ""

    def run(self, output: Path, execution: Execution = Execution(), monitor: Monitor | None = None) -> Path:
        """Train, and return the file of the policy. The same call continues an interrupted run.

        Args:
            output: Folder for `round-N/labels`, `validation` (results of the margins) and
                `policy.safetensors` with its model card `policy.json`.
            execution: Where the compiles run. Default: this process.
            monitor: Receives the progress and the results.

        Raises:
            MissingExtraError: a library is not installed.
            MlgoError: the folder has labels of other settings, a round has no label, or the validation split is empty.
        """
        if self.rounds < 1:
            raise MlgoError(f"expected rounds ≥ 1, got {self.rounds}; a network needs a round of labels")
        monitor = monitor or Monitor()
        remove_unfinished(output)
        validation = self._validation() if len(self.margins) > 1 else None
        labelling, rounds = self.labelling, list[Labels]()
        for index in range(self.rounds):
            labels, total = output / f"round-{index}" / "labels", len(labelling.modules(labelling.make().corpus))
            with monitor.stage("labels", total, name=f"labels, round {index + 1}") as advance:
                for done, _ in enumerate(labelling.run(labels, execution), start=1):
                    advance(done)
            rounds.append(read_labels([labels]))
            network = self.fit.fit(rounds, monitor)
            if index + 1 < self.rounds:
                network.save(file := output / f"round-{index}.safetensors")
                labelling = replace(labelling, policy=f"mlp:{file}", seed=labelling.seed + 1)
        margin, results = self.margins[0], list[MarginResult]()
        if validation is not None:
            # The margins are compared with a network that is fitted without labels of the validation modules.
            digests = frozenset(module.source_digest() for module in validation)
            apart = self.fit.fit(rounds, monitor, digests)
            results = self._margin_results(apart, validation, output / "validation", execution, monitor)
            margin = best_margin(results)
        monitor.record("margin", margin=margin, tried=[result._asdict() for result in results])
        policy = output / "policy.safetensors"
        network = with_margin(network, margin, self.fit.base)
        save_network(network, policy, joined(rounds), validation or ())
        self._write_card(policy, network.features, monitor)
        return policy

    def _margin_results(
        self, network: Network, corpus: Corpus, folder: Path, execution: Execution, monitor: Monitor
    ) -> list[MarginResult]:
        """Return the result of each margin; the folder keeps its networks and finished modules."""
        policies = {}
        folder.mkdir(parents=True, exist_ok=True)
        for margin in self.margins:
            file = folder / f"margin-{margin:g}.safetensors"
            with_margin(network, margin, self.fit.base).save(file)
            policies[f"{margin:g}"] = f"mlp:{file}"
        done = itertools.count(1)
        with monitor.stage("margins", len(corpus) * len(policies)) as advance:
            result = evaluate(
                ENVIRONMENT,
                policies=policies,
                corpus=corpus,
                execution=execution,
                output=folder / "results",
                env_kwargs=dict(self.labelling.arguments),
                progress=lambda _: advance(next(done)),
            )
        results = []
        for summary in result.summaries():
            change = summary.changes[result.metrics[0]]
            mean = math.inf if summary.failures else result.change(summary.policy)
            results.append(MarginResult(float(summary.policy), mean, change.total, change.worse, summary.modules))
        return sorted(results)

    def _validation(self) -> Corpus:
        arguments = {**self.labelling.arguments, "corpus": self.validation}
        corpus = make_environment(ENVIRONMENT, arguments).corpus.split("valid")
        names = drawn_modules(corpus, self.labelling.seed, self.labelling.largest, VALIDATION_MODULES)
        if not names:
            raise MlgoError(
                f"expected validation modules to choose a margin by, got none in the split valid of {self.validation}; "
                "use --margin"
            )
        return corpus.subset(names)

    def _write_card(self, policy: Path, features: tuple[str, ...], monitor: Monitor) -> None:
        env = self.labelling.make()
        (margin,) = monitor.results["margin"]
        card = {
            "name": policy.stem,
            "sha256": file_digest(policy),
            "mlgo_gym": __version__,
            "clang": env.toolchain.version_text,
            "labelling": asdict(self.labelling),
            "fit": self.fit.settings(),
            "validation": self.validation,
            "callee_features": env.setup.options.callee_features,
            "features": list(features),
            "modules": len(self.labelling.modules(env.corpus)),
            "rounds": monitor.results["network"][: self.rounds],
            "margin": margin["margin"],
            "margins": margin["tried"],
            "seconds": {kind: round(seconds, 1) for kind, seconds in monitor.seconds.items()},
        }
        write_atomically(policy.with_suffix(".json"), (json.dumps(card, indent=1) + "\n").encode())
