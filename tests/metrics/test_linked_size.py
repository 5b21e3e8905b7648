"""The metrics `linked` and `estimated-linked`, on two objects that share an inline function."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest

from mlgo_gym.corpus.modules.corpus import join_corpora
from mlgo_gym.corpus.opening import open_corpus
from mlgo_gym.corpus.recording.links import LINKS_FILE
from mlgo_gym.corpus.recording.record import record_build
from mlgo_gym.environment_work import RemoteEnvironment
from mlgo_gym.envs import InlineEnv
from mlgo_gym.episode.function_costs import FunctionCosts
from mlgo_gym.errors import CorpusError, MlgoError
from mlgo_gym.llvm.bitcode import shared_definitions
from mlgo_gym.llvm.linked_symbols import STUB_BYTES, linked_symbols
from mlgo_gym.llvm.toolchain import Toolchain
from mlgo_gym.metrics.estimated_linked_size import EstimatedLinkedSize
from mlgo_gym.policies import load_policy
from mlgo_gym.search import search_module
from mlgo_gym.training.flip_labels import label_by_flips

HEADER = """
inline int shared(int n) { int s = 0; for (int i = 0; i < n; ++i) s += i * n * 77 + (s >> 3); return s; }
"""
SOURCE = """
#include "shared.h"
static int own(int n) {{ int s = 0; for (int i = 0; i < n; ++i) s += i * n * {0} + (s >> 5); return s; }}
int twice_{0}(int n) {{ return shared(n) + shared(n + 1) + own(n) + own(n + {0}); }}
"""
UNUSED = "int unused(int n) { return n * 3 + (n >> 7) * 5; }"
SHARED = "_Z6sharedi"


def play(env: Any, module: str, action: int) -> dict[str, Any]:
    """Play an episode with one action; return its last info."""
    _, info = env.reset(options={"module": module})
    over = False
    while not over:
        _, _, terminated, truncated, info = env.step(action)
        over = terminated or truncated
    return dict(info)


@pytest.fixture(scope="module")
def build(tmp_path_factory: pytest.TempPathFactory, toolchain: Toolchain) -> Path:
    folder = tmp_path_factory.mktemp("build")
    project = folder / "project"
    project.mkdir()
    (project / "shared.h").write_text(HEADER)
    (project / "a.cpp").write_text(SOURCE.format(5) + UNUSED)
    (project / "b.cpp").write_text(SOURCE.format(9))
    (project / "main.c").write_text("int main(int n, char **v) { return _Z7twice_5i(n) + _Z7twice_9i(n); }\n")
    flags = "-ffunction-sections -fno-exceptions -Wno-implicit-function-declaration"
    script = (
        f"$CXX {flags} -c a.cpp b.cpp; $CC {flags} -c main.c; $CC -shared a.o b.o -o libboth.so; "
        "$CC -Wl,--gc-sections main.o a.o b.o -o program"
    )
    recorded = record_build(["sh", "-ec", script], folder / "corpus", toolchain=toolchain, folder=project)
    assert recorded.status == 0
    assert recorded.links == 2
    return folder / "corpus"


@pytest.fixture(scope="module")
def unlinked(build: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same modules without link steps."""
    folder = tmp_path_factory.mktemp("unlinked") / "corpus"
    folder.mkdir()
    for path in build.iterdir():
        if path.is_file() and path.name != LINKS_FILE:
            (folder / path.name).write_bytes(path.read_bytes())
    return folder


def end(corpus: Path, metric: str, action: int, module: str = "a.o", **options: Any) -> dict[str, Any]:
    env = InlineEnv(corpus=str(corpus), metric=metric, **options)
    with env:
        info = play(env, module, action)
    assert info
    return info


def test_the_linked_metric_is_the_size_of_the_files_linked_again(build: Path) -> None:
    kept, inlined = (end(build, "linked", action) for action in (0, 1))
    assert kept["reduction"] == 1 - kept["linked"] / kept["baseline_linked"]
    assert inlined["linked"] > kept["linked"]
    # `shared` is twice in `a`, and `b` still has its copy: two files grow by more than the object.
    growth = inlined["text"] - kept["text"]
    assert inlined["linked"] - kept["linked"] > growth


def test_a_shared_function_counts_by_the_share_of_its_copies(unlinked: Path) -> None:
    with InlineEnv(corpus=str(unlinked), metric="estimated-linked") as env:
        cost = env.setup.project_costs["estimated-linked"]
        assert isinstance(cost, EstimatedLinkedSize)
        data = env.setup.plain_objects.object("a.o")
        symbols = linked_symbols(data)
        assert symbols.shared == {SHARED}
        assert symbols.called <= {SHARED}
        (project,) = cost.linked_together("a.o")
        assert project.copies == {SHARED: 2}
        functions = cost.functions("a.o")
        assert project.callers is None
        info = play(env, "a.o", 0)
        half = functions.functions[SHARED] / cost.unit
        assert info["baseline_estimated-linked"] == info["baseline_text"] - half
        assert info["estimated-linked"] == cost.cost("a.o", data)


def test_the_estimate_knows_what_a_recorded_link_drops(build: Path, unlinked: Path) -> None:
    with InlineEnv(corpus=str(build), metric="estimated-linked") as env:
        cost = env.setup.project_costs["estimated-linked"]
        assert isinstance(cost, EstimatedLinkedSize)
        library, program = cost.linked_together("a.o")
        assert "_Z6unusedi" in program.dropped
        assert "_Z6unusedi" not in library.dropped
        estimated = sum(cost.cost(name) for name in ("a.o", "b.o", "main.o"))
        # `main` calls both functions, and the library its own functions through stubs.
        assert program.callers is None
        assert library.callers is not None
        for name in linked_symbols(env.setup.plain_objects.object("a.o")).called:
            without = replace(library, callers=None)
            assert library.stub_share(name) > without.stub_share(name) == 0
            assert cost.functions("a.o").functions[name] >= cost.unit * STUB_BYTES / 2
    linked = end(build, "linked", 0)["baseline_linked"]
    # Start files of the C library and padding are not in any module.
    assert estimated == pytest.approx(linked, rel=0.6)


def test_a_function_that_plain_clang_drops_everywhere_counts_by_its_definitions(unlinked: Path) -> None:
    names = [shared_definitions(unlinked / f"{name}.o.bc") for name in "ab"]
    assert names == [{SHARED}] * 2
    with InlineEnv(corpus=str(unlinked), metric="estimated-linked") as env:
        cost = env.setup.project_costs["estimated-linked"]
        assert isinstance(cost, EstimatedLinkedSize)
        (project,) = cost.linked_together("a.o")
        project.copies.clear()
        assert project.share(SHARED, is_shared=True) == 0.5
        assert project.share("other", is_shared=True) == 1.0
        assert project.share("own", is_shared=False) == 1.0


def test_a_part_of_a_corpus_shares_with_the_modules_beyond_it(unlinked: Path) -> None:
    part = open_corpus(unlinked).filter(names="a.o")
    for corpus in (part, join_corpora([part])):
        with InlineEnv(corpus=corpus, metric="estimated-linked") as env:
            cost = env.setup.project_costs["estimated-linked"]
            assert isinstance(cost, EstimatedLinkedSize)
            (name,) = env.corpus.names
            (project,) = cost.linked_together(name)
            assert project.copies == {SHARED: 2}


@pytest.mark.parametrize("metric", ["linked", "estimated-linked"])
def test_credit_labels_and_search_take_the_metric(metric: str, build: Path) -> None:
    info = end(build, metric, 1, credit=True)
    assert sum(info["credit"]) == pytest.approx(info[f"baseline_{metric}"] - info[metric])
    with InlineEnv(corpus=str(build), metric=metric) as env:
        compilation = env.compilation(env.corpus.module("a.o"))
        costs = FunctionCosts(env.setup, compilation)
        labels = label_by_flips(compilation, env.task, load_policy("default", env), check=2, costs=costs)
        assert labels.text == pytest.approx(info[f"baseline_{metric}"], abs=1)
        assert labels.labels
        assert labels.checked
        assert all(label == pytest.approx(alone, abs=16) for label, alone in labels.checked)
        found = search_module(env, env.corpus.module("a.o"), "bundles", compiles=6)
        assert found.baseline == pytest.approx(info[f"baseline_{metric}"], abs=1)
        assert found.cost <= found.baseline


def test_register_allocation_takes_the_metrics(build: Path) -> None:
    for metric in ("linked", "estimated-linked"):
        env = gym.make("mlgo/RegAllocEvict-v0", corpus=str(build), metric=metric)
        assert metric in env.unwrapped.task.metrics  # type: ignore[attr-defined]
        env.close()


def test_what_has_no_links_has_no_linked_size(unlinked: Path) -> None:
    with pytest.raises(CorpusError, match="expected a corpus with link steps for metric='linked', got 'corpus'"):
        end(unlinked, "linked", 0)
    with pytest.raises(MlgoError, match="expected scope='module' with metric='linked', got 'function'"):
        end(unlinked, "linked", 0, scope="function")


def test_other_machines_lack_the_modules_of_the_project(unlinked: Path) -> None:
    arguments = {"metric": "estimated-linked"}
    with (
        InlineEnv(corpus=str(unlinked), **arguments) as env,
        pytest.raises(MlgoError, match="expected a metric of single modules for a cluster, got estimated-linked"),
    ):
        RemoteEnvironment.of("mlgo/Inline-v0", arguments, env)
