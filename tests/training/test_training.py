"""Training: networks learn what they are shown, the same each time, and what was ended goes on."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

import mlgo_gym
from mlgo_gym.corpus.digests import sidecar
from mlgo_gym.envs import InlineEnv
from mlgo_gym.errors import MlgoError
from mlgo_gym.policies import load_policy
from mlgo_gym.policies.box import box_file
from mlgo_gym.policies.call_features import CALL_FEATURES
from mlgo_gym.policies.calls import sees_calls
from mlgo_gym.policies.loading import wants_calls
from mlgo_gym.policies.network import Network
from mlgo_gym.training import Evolution, Imitation, Labelling, NetworkSettings, Road, TeacherSettings, imitate
from mlgo_gym.training.cloning import Cloning
from mlgo_gym.training.distillation import distil
from mlgo_gym.training.evolution import flatten, unflatten
from mlgo_gym.training.features import raw_features
from mlgo_gym.training.label_store import Labels
from mlgo_gym.training.optimisers import OPTIMISERS
from mlgo_gym.training.road_clock import Progress
from mlgo_gym.training.teacher import Teacher, estimate

pytest.importorskip("torch")
pytest.importorskip("lightgbm")
pytestmark = [pytest.mark.libraries, pytest.mark.timeout(300)]
assert mlgo_gym

SMALL = NetworkSettings((16, 8), 150)


@pytest.fixture(scope="module")
def labels() -> Labels:
    """Labels of calls that are worth inlining where their cost is below 0."""
    env = gym.make("mlgo/Inline-v0").unwrapped
    names = env.feature_names  # type: ignore[attr-defined] # of mlgo-gym's environments
    generator = np.random.default_rng(0)
    rows = np.round(generator.normal(0, 50, (600, len(names))))
    cost = rows[:, names.index("cost_estimate")]
    rows[:, -1] = 0
    return Labels(
        names,
        rows,
        np.zeros(600, np.int8),
        (cost * 2).astype(np.int64),
        np.full(600, 1_000_000),
        np.full(600, 2.0),
        np.array([f"0:m{number % 30}" for number in range(600)]),
        np.array([""] * 600),
        np.array(["p"] * 600),
    )


def test_trees_and_their_network_learn_what_labels_say(labels: Labels) -> None:
    teacher = Teacher(labels, TeacherSettings(seeds=1, trees=40))
    smaller = labels.bytes < 0
    assert ((teacher.logits(labels.observations) > 0) == smaller).mean() > 0.95
    network = distil(labels.features, labels.observations, teacher.logits, NetworkSettings((32, 16), 400))
    assert network.features == raw_features(labels.features)
    columns = [labels.features.index(name) for name in network.features]
    answers = network(labels.observations[:, columns].astype(np.float32))[:, 0] > 0
    assert (answers == smaller).mean() > 0.85
    best, learned, nothing = (estimate(labels, each) for each in (smaller, answers, labels.answers))
    assert best <= learned < 0.9 * best
    assert nothing == 0


def test_labels_that_say_nothing_are_refused(labels: Labels) -> None:
    nothing = replace(labels, bytes=np.zeros_like(labels.bytes))
    with pytest.raises(MlgoError, match="labels that are not 0 were wanted, and all 600 are"):
        Teacher(nothing, TeacherSettings())


def test_imitation_of_clang_decides_as_clang(corpus: Path) -> None:
    env = gym.make("mlgo/Inline-v0", corpus=str(corpus))
    rounds: list[float] = []
    network = imitate(env, rounds=2, episodes=2, settings=SMALL, note=lambda number, share: rounds.append(share))
    assert rounds[0] == 1.0
    assert rounds[1] > 0.8
    assert network.outputs == 2
    assert "inlining_default" not in network.features
    again = imitate(env, rounds=2, episodes=2, settings=SMALL)
    assert np.array_equal(flatten(again), flatten(network))


def test_the_whole_road_gives_a_policy_and_goes_on_where_it_was_ended(varied: str, tmp_path: Path) -> None:
    road = Road(Labelling(varied, compiles=5), Imitation(TeacherSettings(seeds=1, trees=5), SMALL, margin=0.5), 2)
    final = road.run(tmp_path)
    policy = load_policy(f"mlp:{final}", gym.make("mlgo/Inline-v0", corpus=varied))
    assert policy is not None
    card = json.loads(tmp_path.joinpath("policy.json").read_bytes())
    assert [facts["labels"] > 0 for facts in card["rounds"]] == [True, True]
    assert json.loads(tmp_path.joinpath("round-1", "labels", "labels.json").read_bytes())["policy"].startswith("mlp:")
    before = final.read_bytes()
    for name in ("policy.safetensors", "round-1.safetensors"):
        tmp_path.joinpath(name).unlink()
    assert road.run(tmp_path).read_bytes() == before
    with pytest.raises(MlgoError, match="a road of other settings"):
        Road(Labelling(varied, compiles=6), rounds=2).run(tmp_path)


def test_a_margin_is_chosen_by_modules_that_the_network_has_not_learned_from(varied: str, tmp_path: Path) -> None:
    stages: dict[str, Progress] = {}
    road = Road(
        Labelling(varied, compiles=5), Imitation(TeacherSettings(seeds=1, trees=5), SMALL), 1, (0.0, 20.0), varied
    )
    road.run(tmp_path, note=lambda progress: stages.update({progress.stage: progress}))
    card = json.loads(tmp_path.joinpath("policy.json").read_bytes())
    assert card["margin"] in (0.0, 20.0)
    told = {line.partition(" ")[0] for line in sidecar(tmp_path / "policy.safetensors").read_text().splitlines()}
    assert told == {module.digest() for module in InlineEnv(corpus=varied).corpus}
    assert [tried["modules"] for tried in card["margins"]] == [2, 2]  # of one source, and so in one part of the split
    assert card["margins"][1]["mean"] == 0.0  # nobody is as sure as that
    first, last = (
        json.loads(path.read_bytes()) for path in (tmp_path / "validation/network.json", tmp_path / "round-0.json")
    )
    assert (first["modules"], last["modules"]) == (2, 4)
    assert all(progress.done == progress.total for progress in stages.values())
    assert stages["network, the last"].left == 0
    assert stages["network, the last"].used == pytest.approx(card["seconds"], abs=1)


def test_the_whole_road_with_calls_gives_a_policy_that_sees_them(varied: str, tmp_path: Path) -> None:
    labelling = Labelling(varied, arguments={"calls": True}, compiles=5)
    road = Road(labelling, Imitation(TeacherSettings(seeds=1, trees=5), SMALL), 2, (0.0, 20.0), varied)
    final = road.run(tmp_path)
    before = final.read_bytes()
    assert wants_calls(f"mlp:{final}")
    card = json.loads(tmp_path.joinpath("policy.json").read_bytes())
    assert card["calls"]
    assert set(CALL_FEATURES) <= set(card["features"])
    assert card["margins"][1]["mean"] == 0.0  # nobody is as sure as that
    assert sidecar(final).exists()
    header = json.loads(tmp_path.joinpath("round-1", "labels", "labels.json").read_bytes())
    assert header["policy"].startswith("mlp:")
    for path in (final, tmp_path / "round-1.safetensors"):
        path.unlink()
    assert road.run(tmp_path).read_bytes() == before


def test_imitation_of_a_policy_that_sees_calls_needs_none(varied: str) -> None:
    arguments = {"corpus": varied}
    rounds: list[float] = []
    cloning = Cloning("mlgo/Inline-v0", arguments, "inline-oz-calls", rounds=2, episodes=2, settings=SMALL)
    network = cloning.run(note=lambda number, share: rounds.append(share))
    assert rounds[0] == 1.0
    assert not sees_calls(network)


def test_a_margin_needs_modules_to_choose_by(calls: Path, tmp_path: Path) -> None:
    road = Road(Labelling(str(calls)), rounds=1, margins=(0.0,), validation=str(calls))
    with pytest.raises(MlgoError, match="no module to choose a margin by"):
        road.run(tmp_path)


def test_weights_go_into_a_row_and_back() -> None:
    shapes = [(3, 4), (4, 2)]
    network = Network(
        ("a", "b", "c"),
        tuple(np.random.default_rng(0).normal(size=shape).astype(np.float32) for shape in shapes),
        tuple(np.ones(shape[1], np.float32) for shape in shapes),
    )
    rows = np.random.default_rng(1).normal(size=(5, 3)).astype(np.float32)
    assert np.array_equal(unflatten(network, flatten(network))(rows), network(rows))


@pytest.mark.parametrize("optimiser", OPTIMISERS)
def test_evolution_that_was_ended_comes_to_the_same_result(optimiser: str, corpus: Path, tmp_path: Path) -> None:
    arguments = {"corpus": str(corpus)}
    start = imitate(
        gym.make("mlgo/Inline-v0", corpus=str(corpus)), rounds=1, episodes=1, settings=NetworkSettings((4,), 20)
    )
    settings: dict[str, Any] = {
        "generations": 2,
        "directions": 1,
        "best": 1,
        "modules": 1,
        "deviation": 0.5,
        "optimiser": optimiser,
    }
    evolution = Evolution("mlgo/Inline-v0", arguments, **settings)
    whole = evolution.run(start, tmp_path / "whole.safetensors")
    assert not np.array_equal(flatten(whole), flatten(start))

    def end(generation: int, reduction: float) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        evolution.run(start, tmp_path / "ended.safetensors", note=end)
    rest: list[int] = []
    evolution.run(start, tmp_path / "ended.safetensors", note=lambda generation, reduction: rest.append(generation))
    assert rest == [1]
    assert (tmp_path / "ended.safetensors").read_bytes() == (tmp_path / "whole.safetensors").read_bytes()


def test_a_network_that_sees_calls_evolves(corpus: Path, tmp_path: Path) -> None:
    start = Network.load(box_file("inline-oz-calls", calls=True))
    evolution = Evolution("mlgo/Inline-v0", {"corpus": str(corpus)}, generations=1, directions=1, best=1, modules=1)
    evolved = evolution.run(start, tmp_path / "n.safetensors")
    assert evolved.features == start.features
