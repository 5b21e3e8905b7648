"""What compiles on a cluster comes to what it does here: searches, labels, and every training that compiles."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mlgo_gym.evaluation.environment import make_environment
from mlgo_gym.search import CorpusSearch
from mlgo_gym.search.recipe_making import make_recipe
from mlgo_gym.storage.recipe import keep_recipe
from mlgo_gym.training.answer_store import AnswerStore
from mlgo_gym.training.best_of import BestOf
from mlgo_gym.training.cloning import Cloning
from mlgo_gym.training.distillation import NetworkSettings
from mlgo_gym.training.evolution import Evolution
from mlgo_gym.training.imitation import Imitation
from mlgo_gym.training.labelling import Labelling
from mlgo_gym.training.road import Road
from mlgo_gym.training.teacher import TeacherSettings
from tests.scheduling.marks import on_a_cluster

pytest.importorskip("ray")
pytest.importorskip("torch")

pytestmark = [pytest.mark.libraries, *on_a_cluster(600)]


def without_times(line: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in line.items() if "seconds" not in name}


@pytest.mark.parametrize("algorithm", ["greedy", "bundles"])
def test_a_search_and_its_recipes(algorithm: str, cluster: str, varied: str, tmp_path: Path) -> None:
    found = []
    # A clang that inlines nothing by itself can be improved on.
    arguments = {"corpus": varied, "extra_flags": ["-mllvm", "-inline-threshold=-1000"]}
    for name, address in (("here", None), ("there", cluster)):
        folder = tmp_path / name
        folder.mkdir()
        search = CorpusSearch("mlgo/Inline-v0", arguments, algorithm, compiles=12, recipes=folder)
        results = {result.module: replace(result, seconds=0.0) for result in search.run(ray=address)}
        found.append((results, {file.name: file.read_bytes() for file in folder.iterdir()}))
    assert found[0] == found[1]
    assert len(found[0][0]) == 4
    assert found[0][1]


def test_labels(cluster: str, corpus: Path, tmp_path: Path) -> None:
    labelling = Labelling(str(corpus), compiles=4, check=1)
    found = [
        {line["module"]: without_times(line) for line in labelling.run(tmp_path / name, ray=address)}
        for name, address in (("here", None), ("there", cluster))
    ]
    assert found[0] == found[1]
    assert len(found[0]) == 3


def test_a_policy_that_sees_calls_from_labels_to_the_margin(cluster: str, varied: str, tmp_path: Path) -> None:
    imitation = Imitation(TeacherSettings(seeds=1, trees=5), NetworkSettings((4,), 20))
    labelling = Labelling(varied, arguments={"calls": True}, compiles=2)
    road = Road(labelling, imitation, 2, (0.0, 20.0), varied)
    here, there = (road.run(tmp_path / name, ray=address) for name, address in (("here", None), ("there", cluster)))
    assert here.read_bytes() == there.read_bytes()
    cards = [json.loads(file.with_name("policy.json").read_bytes()) for file in (here, there)]
    assert cards[0]["margins"] == cards[1]["margins"]


def test_the_best_of_several_baselines(cluster: str, corpus: Path, tmp_path: Path) -> None:
    recipes = tmp_path / "recipes"
    recipes.mkdir()
    env = make_environment("mlgo/Inline-v0", {"corpus": str(corpus)})
    actions = (1,) * sum(env.decisions(env.corpus.module("calls")).values())
    keep_recipe(make_recipe(env, env.corpus.module("calls"), actions), recipes, b"")
    best = BestOf(str(corpus), ("default", "never", f"recipes:{recipes}"))
    here = {line["module"]: line for line in best.run(tmp_path / "here")}
    there = {line["module"]: line for line in best.run(tmp_path / "there", ray=cluster)}
    assert here == there
    env = best.make()
    stores = [AnswerStore(tmp_path / name, best._header(env)) for name in ("here", "there")]
    for name in (name for name, line in here.items() if line["decisions"]):
        one, other = (store.read(name) for store in stores)
        np.testing.assert_array_equal(one.observations, other.observations)
        np.testing.assert_array_equal(one.answers, other.answers)
    for store in stores:
        store.close()


def test_imitation_and_evolution(cluster: str, corpus: Path, tmp_path: Path) -> None:
    arguments = {"corpus": str(corpus)}
    cloning = Cloning("mlgo/Inline-v0", arguments, rounds=2, episodes=2, settings=NetworkSettings((4,), 20))
    cloning.run().save(tmp_path / "here")
    network = cloning.run(ray=cluster)
    network.save(tmp_path / "there")
    assert (tmp_path / "here").read_bytes() == (tmp_path / "there").read_bytes()
    evolution = Evolution("mlgo/Inline-v0", arguments, generations=1, directions=2, best=1, modules=2, deviation=0.5)
    evolution.run(network, tmp_path / "evolved")
    evolution.run(network, tmp_path / "evolved there", ray=cluster)
    assert (tmp_path / "evolved").read_bytes() == (tmp_path / "evolved there").read_bytes()


def test_processes_clone_as_one_does(corpus: Path, tmp_path: Path) -> None:
    shutil.copytree(corpus, tmp_path / "corpus")
    arguments = {"corpus": str(tmp_path / "corpus")}
    cloning = Cloning("mlgo/Inline-v0", arguments, rounds=2, episodes=3, settings=NetworkSettings((4,), 20))
    agreements: list[float] = []
    cloning.run(note=lambda number, share: agreements.append(share)).save(tmp_path / "one")
    cloning.run(2).save(tmp_path / "two")
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()
    assert agreements[0] == 1.0
