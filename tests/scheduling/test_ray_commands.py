"""Searches, labels and every training give the same results on a cluster as in this process."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mlgo_gym.make_env import make_environment
from mlgo_gym.scheduling import Execution
from mlgo_gym.search import CorpusSearch
from mlgo_gym.training import Evolution, Labelling, NetworkSettings, PolicyTraining, TreeImitation, imitate

pytest.importorskip("ray")
pytest.importorskip("torch")

pytestmark = [
    pytest.mark.libraries,
    # Ray leaves sockets and files open until the process exits, and warns about future changes.
    pytest.mark.filterwarnings("ignore"),
    pytest.mark.timeout(600),
    # One cluster for all tests, never two at the same time.
    pytest.mark.xdist_group("ray"),
]


def without_times(line: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in line.items() if "seconds" not in name}


@pytest.mark.parametrize("algorithm", ["greedy", "bundles"])
def test_a_search_and_its_recipes(algorithm: str, cluster: str, varied: str, tmp_path: Path) -> None:
    found = []
    # A clang that inlines nothing by itself can be improved on.
    arguments = {"corpus": varied, "compile_options": {"extra_flags": ["-mllvm", "-inline-threshold=-1000"]}}
    for name, address in (("here", None), ("there", cluster)):
        folder = tmp_path / name
        folder.mkdir()
        search = CorpusSearch("mlgo/Inline-v0", arguments, algorithm, compiles=12, recipes=folder)
        results = {
            result.module: replace(result, seconds=0.0) for result in search.run(execution=Execution(ray=address))
        }
        found.append((results, {file.name: file.read_bytes() for file in folder.iterdir()}))
    assert found[0] == found[1]
    assert len(found[0][0]) == 4
    assert found[0][1]


def test_labels(cluster: str, corpus: Path, tmp_path: Path) -> None:
    labelling = Labelling(str(corpus), compiles=4, check=1)
    found = [
        {line["module"]: without_times(line) for line in labelling.run(tmp_path / name, Execution(ray=address))}
        for name, address in (("here", None), ("there", cluster))
    ]
    assert found[0] == found[1]
    assert len(found[0]) == 3


def test_a_policy_with_callee_features_from_labels_to_the_margin(cluster: str, varied: str, tmp_path: Path) -> None:
    labelling = Labelling(varied, arguments={"callee_features": True}, compiles=2)
    fit = TreeImitation(1, 5, NetworkSettings((4,), 20))
    training = PolicyTraining(labelling, fit, 2, (0.0, 20.0), varied)
    here, there = (
        training.run(tmp_path / name, Execution(ray=address)) for name, address in (("here", None), ("there", cluster))
    )
    assert here.read_bytes() == there.read_bytes()
    cards = [json.loads(file.with_name("policy.json").read_bytes()) for file in (here, there)]
    assert cards[0]["margins"] == cards[1]["margins"]


def test_imitation_and_evolution(cluster: str, corpus: Path, tmp_path: Path) -> None:
    env = make_environment("mlgo/Inline-v0", {"corpus": str(corpus)})
    settings: dict[str, Any] = {"rounds": 2, "episodes": 2, "settings": NetworkSettings((4,), 20)}
    imitate(env, **settings, output=tmp_path / "here")
    imitate(env, **settings, output=tmp_path / "there", execution=Execution(ray=cluster))
    assert (tmp_path / "here").read_bytes() == (tmp_path / "there").read_bytes()
    arguments = {"corpus": str(corpus)}
    evolution = Evolution("mlgo/Inline-v0", arguments, generations=1, directions=2, best=1, modules=2, deviation=0.5)
    evolution.run(tmp_path / "here", tmp_path / "evolved")
    evolution.run(tmp_path / "here", tmp_path / "evolved there", execution=Execution(ray=cluster))
    assert (tmp_path / "evolved").read_bytes() == (tmp_path / "evolved there").read_bytes()
