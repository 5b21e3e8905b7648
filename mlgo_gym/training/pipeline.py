"""The training pipeline: collect data, fit a network, choose a margin, save it.

Each training method runs `run_pipeline()` with parts of its own. A new method is a new collector, a new fit, or both:

| method | collector | fit | choice |
|---|---|---|---|
| `train imitation` | stored labels | `TreeImitation.fit()` | `MarginChoice` |
| `train policy` | `label_rounds()` | `TreeImitation.fit()` | `MarginChoice` |
| `train clone`, `imitate()` | `expert_rollouts()` | `Classification.fit()` | |

`BestCheckpoint` is the choice for training loops outside this package.
"""

import json
import random
from collections import defaultdict, deque
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from mlgo_gym import __version__
from mlgo_gym.cache import write_atomically
from mlgo_gym.corpus.corpus import Corpus
from mlgo_gym.corpus.training_digests import sidecar, write_sidecar_digests
from mlgo_gym.env import CompilerEnv
from mlgo_gym.errors import MlgoError
from mlgo_gym.identity import identity_of, module_identity
from mlgo_gym.llvm.advisors import INLINING
from mlgo_gym.make_env import EnvironmentWork, make_environment
from mlgo_gym.policies import Policy, load_policy
from mlgo_gym.policies.loading import file_digest, unpack_policy, with_callee_features
from mlgo_gym.policies.network import Network
from mlgo_gym.scheduling import Execution, FileStore
from mlgo_gym.storage.json_files import remove_unfinished
from mlgo_gym.training.checkpoint_choice import VALIDATION_MODULES, MarginChoice
from mlgo_gym.training.flip_labels import label_by_flips
from mlgo_gym.training.graph_labels import labels_digest
from mlgo_gym.training.labels import Labels, LabelStore, ModuleLabels, read_labels
from mlgo_gym.training.monitor import Monitor
from mlgo_gym.training.tree_imitation import TreeImitation

Fit = Callable[[Sequence[Labels], Monitor], Network]
"""Fits a network to the labels of all rounds so far; the same labels give the same network."""

Collector = Callable[[int, Network | None, Monitor], Labels]
"""Collects the labels of a round, given its number and the network of the round before (None in round 0)."""


@dataclass(frozen=True, slots=True)
class Labelling:
    """Labels of the inlining decisions of a corpus, by flips.

    Attributes:
        corpus: The corpus, as `open_corpus` takes it.
        policy: Policy that the labels are taken around, as `load_policy` takes it.
        environment: Id of the environment.
        arguments: Other arguments of the environment, JSON-able.
        compiles: Maximum number of compiles per module (≥ 1).
        seconds: Maximum CPU time per module, in seconds. Default: no limit.
        seed: Selects the labelled decisions and the order of the modules.
        check: Number of labels per module to measure again by a single flip (≥ 0).
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
        if env.task.advisors != (INLINING,):
            raise MlgoError(f"expected an environment of inlining to label, got {self.environment}; use mlgo/Inline-v0")
        return env

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
        header = identity_of(env, self.environment, arguments, {"policy": self.policy})
        header |= {name: getattr(self, name) for name in ("corpus", "compiles", "seconds", "seed", "check")}
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
            work = EnvironmentWork(self.environment, {**arguments, "corpus": self.corpus}, self._start, [self.policy])
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
            return label_by_flips(
                env, policy, name, compiles=self.compiles, seconds=seconds, seed=self.seed, check=self.check
            )
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


def label_rounds(labelling: Labelling, folder: Path, execution: Execution = Execution()) -> Collector:
    """Return a collector of the labels of a corpus; each round is around the network of the round before.

    Args:
        labelling: The labels of a round. Its policy is that of the first round; round n adds n to its seed.
        folder: Folder for `round-N/labels` and `round-N.safetensors`. Finished modules are not labelled again.
    """

    def collect(round_index: int, network: Network | None, monitor: Monitor) -> Labels:
        current = replace(labelling, seed=labelling.seed + round_index)
        if network is not None:
            file = folder / f"round-{round_index - 1}.safetensors"
            network.save(file)
            current = replace(current, policy=f"mlp:{file}")
        labels = folder / f"round-{round_index}" / "labels"
        total = len(current.modules(current.make().corpus))
        with monitor.stage("labels", total, name=f"labels, round {round_index + 1}") as advance:
            for done, _ in enumerate(current.run(labels, execution), start=1):
                advance(done)
        return read_labels([labels])

    return collect


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


def run_pipeline(
    collect: Collector,
    fit: Fit,
    choice: MarginChoice | None = None,
    *,
    rounds: int = 1,
    output: Path | None = None,
    monitor: Monitor | None = None,
) -> Network:
    """Train in rounds (≥ 1), and return the network: that of the choice, by default that of the last round.

    The `output` is a file for the network, in safetensors. `OUTPUT.training.txt` lists the digests of the modules that
    the network depends on, if all are known. By default nothing is written.
    """
    if rounds < 1:
        raise MlgoError(f"expected rounds ≥ 1, got {rounds}; a network needs a round of labels")
    monitor = monitor or Monitor()
    collected = [collect(0, None, monitor)]
    network = fit(collected, monitor)
    for round_index in range(1, rounds):
        collected.append(collect(round_index, network, monitor))
        network = fit(collected, monitor)
    if choice is not None:
        network = choice.choose(network, collected, monitor)
    if output is not None:
        network.save(output)
        modules: dict[str, str] = {}
        for labels in collected:
            if labels.trained_on is None:
                sidecar(output).unlink(missing_ok=True)
                return network
            modules |= labels.trained_on
        write_sidecar_digests(output, modules, () if choice is None else choice.corpus or ())
    return network


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
        monitor = monitor or Monitor()
        remove_unfinished(output)
        corpus = self._validation() if len(self.margins) > 1 else None
        folder, labelling = output / "validation", self.labelling
        choice = MarginChoice(
            self.fit, self.margins, corpus, folder, labelling.environment, labelling.arguments, execution
        )
        policy = output / "policy.safetensors"
        collect = label_rounds(labelling, output, execution)
        network = run_pipeline(collect, self.fit.fit, choice, rounds=self.rounds, output=policy, monitor=monitor)
        self._write_card(policy, network.features, monitor)
        return policy

    def _validation(self) -> Corpus:
        arguments = {**self.labelling.arguments, "corpus": self.validation}
        corpus = make_environment(self.labelling.environment, arguments).corpus.split("valid")
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
