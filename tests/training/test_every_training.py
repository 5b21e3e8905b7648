"""Every way to train follows its seed, and sees no module that is held out, by the digests of what it fits."""

import dataclasses
import inspect
import shutil
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from mlgo_gym import Network, open_corpus, score
from mlgo_gym.cli import train
from mlgo_gym.corpus.opening import parse_corpora
from mlgo_gym.corpus.parts import Part
from mlgo_gym.corpus.training_digests import sidecar_digests
from mlgo_gym.integrations import fit_normalization
from mlgo_gym.llvm.toolchain import Toolchain
from mlgo_gym.make_env import make_environment
from mlgo_gym.training import Labelling, Labels, Monitor, PolicyTraining, TreeImitation
from mlgo_gym.training.bandit import InlineBanditVectorEnv
from mlgo_gym.training.distillation import NetworkSettings
from mlgo_gym.training.labels import joined
from mlgo_gym.training.tree_imitation import without_modules
from tests.conftest import PROGRAMS, MakeBitcode

INLINE = "mlgo/Inline-v0"
SMALL: dict[str, Any] = {"models": 1, "trees": 3, "network": NetworkSettings((4,), 5)}

Fits = list[set[str]]
"""The digests of the modules of each fit, in order."""


@pytest.fixture(scope="module")
def projects(make_bitcode: MakeBitcode, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A folder of twelve projects of a module, and copies of all in one that is for fitting."""
    folder, sources = (tmp_path_factory.mktemp(name) for name in ("projects", "sources"))
    text = (PROGRAMS / "mixed.c").read_text()
    (copies := folder / "project3").mkdir()
    for number in range(12):
        calls = " + ".join(f"own(x + {term})" for term in range(number + 2))
        own = f"static int own(int x) {{ return x * x * {number} + x; }}\nint users(int x) {{ return {calls}; }}\n"
        (source := sources / f"variant{number}.c").write_text(text + own)
        (project := folder / f"project{number}").mkdir(exist_ok=True)
        shutil.copy(make_bitcode(source), project / "module.bc")
        shutil.copy(project / "module.bc", copies / f"copy{number}.bc")
    return str(folder)


@pytest.fixture(scope="module")
def parts(projects: str, toolchain: Toolchain) -> dict[Part, set[str]]:
    """The digests of each part; all have some, and the project of copies is for fitting."""
    names: tuple[Part, ...] = ("train", "fit", "valid", "test")
    corpora = {part: open_corpus(f"{projects}:{part}", toolchain=toolchain) for part in names}
    assert any(name.startswith("project3/") for name in corpora["fit"].names)
    digests = {part: {module.source_digest() for module in corpus} for part, corpus in corpora.items()}
    assert min(map(len, digests.values())) > 0
    assert not digests["test"] & digests["train"]
    return digests


def make_labels(projects: str, folder: Path, seed: int, part: str = ":train") -> Path:
    for _ in Labelling(f"{projects}{part}", compiles=2, seed=seed).run(folder / "labels"):
        pass
    return folder / "labels"


def digests_of(labels: Labels) -> set[str]:
    return set(labels.digests.tolist())


@dataclass(frozen=True)
class Recording(TreeImitation):
    """Trees that record the digests of each fit."""

    fits: Fits = field(default_factory=list)

    def settings(self) -> dict[str, Any]:
        return {}

    def fit(self, rounds: Sequence[Labels], monitor: Monitor, exclude: Collection[str] = ()) -> Network:
        self.fits.append(digests_of(without_modules(joined(rounds), exclude)))
        return dataclasses.replace(TreeImitation(**SMALL, seed=self.seed)).fit(rounds, monitor, exclude)


def policy(projects: str, folder: Path, seed: int) -> tuple[bytes, Fits]:
    fit, train = Recording(**SMALL, seed=seed), f"{projects}:train"
    file = PolicyTraining(Labelling(train, compiles=2, seed=seed), fit, 2, (0.0, 1.0), train).run(folder)
    return file.read_bytes(), [*fit.fits, set(sidecar_digests(file))]


def normalization(projects: str, folder: Path, seed: int) -> tuple[bytes, Fits]:
    env, seen = make_environment(INLINE, {"corpus": f"{projects}:train"}), set()
    reset = env.reset

    def noted(**arguments: Any) -> tuple[Any, dict[str, Any]]:
        observation, info = reset(**arguments)
        seen.add(env.corpus.module(info["module"]).source_digest())
        return observation, info

    env.reset = noted  # type: ignore[method-assign] # it notes the order of modules
    return repr(fit_normalization(env, observations=90, per_episode=4, seed=seed).to_json()).encode(), [seen]


def bandit(projects: str, folder: Path, seed: int) -> tuple[bytes, Fits]:
    # The labels are of all parts.
    labels = make_labels(projects, folder, 0, part="")
    environments = {
        split: InlineBanditVectorEnv(4, labels=labels, split=split, normalize=True)
        for split in ("train", "fit", "valid")
    }
    tables = [str(environments[split].normalization) for split in ("fit", "valid", "train")]
    assert tables[0] == tables[1] != tables[2]
    rows = environments["train"].reset(seed=seed)[0].tobytes()
    return rows, [digests_of(environments[split].labels) for split in ("train", "fit")]


LIBRARIES = [pytest.mark.libraries]
TRAININGS: list[Any] = [normalization, bandit, pytest.param(policy, marks=LIBRARIES)]


@pytest.mark.parametrize("training", TRAININGS, ids=lambda training: training.__name__)
def test_a_training_follows_its_seed_and_sees_no_held_out_module(
    training: Callable[[str, Path, int], tuple[bytes, Fits]],
    projects: str,
    parts: dict[Part, set[str]],
    tmp_path: Path,
) -> None:
    for library in ("pyarrow", *(("torch", "lightgbm") if training is policy else ())):
        pytest.importorskip(library)
    results = []
    for name, seed in (("first", 7), ("again", 7), ("other", 8)):
        (folder := tmp_path / name).mkdir()
        results.append(training(projects, folder, seed))
    assert results[0] == results[1]
    assert results[0][0] != results[2][0]
    for _, fits in results:
        for digests in fits:
            assert digests
            assert digests <= parts["train"]
        if training in (policy, bandit):
            # The fit by which a margin is chosen, or that a choice by the validation part is made beside.
            assert any(digests <= parts["fit"] for digests in fits)
    if training is policy:
        assert all(digests - parts["fit"] for digests in (results[0][1][0], results[0][1][-1]))


def test_default_corpora_are_of_training_modules(toolchain: Toolchain) -> None:
    larger = score("cost_estimate < 100000", compiles=2, end_above=99, explain=False)
    assert larger.regressions
    assert {name for name, _ in larger.regressions} <= set(open_corpus("builtin:train", toolchain=toolchain).names)
    default = inspect.signature(train.policy).parameters["corpus"].default
    assert {tuple(spec.parts) for spec in parse_corpora(default)} == {("train",)}
