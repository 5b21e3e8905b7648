"""Policies against modules, with the real compiler, and their results on disk."""

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mlgo_gym import Execution, MlgoError, Network, open_corpus
from mlgo_gym.corpus.training_digests import write_sidecar_digests
from mlgo_gym.evaluation import Evaluation, evaluate, load_result
from mlgo_gym.evaluation.comparison import compare
from mlgo_gym.evaluation.record import EpisodeRecord, ModuleFacts, bitcode_facts
from mlgo_gym.evaluation.report import notes
from mlgo_gym.evaluation.result import (
    MODULES,
    ResultFolder,
    read_configuration,
    read_episodes,
    read_modules,
    write_modules,
)
from mlgo_gym.llvm.toolchain import Toolchain
from tests.evaluation.runs import CONFIGURATION, record
from tests.evaluation.test_episode_runner import FAULTY, INLINE, everything
from tests.training.label_samples import constant

POLICIES = ("default", "never", "always", "random", "clang:-mllvm,-inline-threshold=-1000")


def test_each_policy_meets_each_module_with_decisions(corpus: Path) -> None:
    result = evaluate(INLINE, corpus=str(corpus), policies=POLICIES)
    done = {(episode.policy, episode.module) for episode in result.episodes if episode.status == "done"}
    assert done == {(policy, module) for policy in POLICIES for module in ("calls", "more/calls")}
    assert (result.without_decisions, result.failures, result.deviations) == (["leaf"], [], [])
    assert [episode.policy for episode in result.episodes if episode.module == "leaf"] == ["default"], "it is left out"
    changes = {summary.policy: summary.changes["text"] for summary in result.summaries()}
    assert (changes["default"].equal, changes["never"].equal) == (2, 0)
    sizes = {(episode.policy, episode.module): episode.metrics.get("text") for episode in result.episodes}
    assert sizes[POLICIES[-1], "calls"] == sizes["never", "calls"] != sizes["default", "calls"]
    configuration = result.configuration
    assert (configuration.modules, configuration.clang, configuration.metric) == (3, "22.1.8", "text")
    assert configuration.levels == {corpus.name: {"Oz": 3}}
    several = evaluate(INLINE, corpus=f"{corpus},builtin@Oz", policies=["default"], limit=4)
    assert several.configuration.levels == {corpus.name: {"Oz": 1}, "builtin": {"Oz": 3}}


def test_a_second_call_does_only_the_rest_and_tries_failures_again(corpus: Path, tmp_path: Path) -> None:
    def run(*policies: str) -> set[tuple[str, str]]:
        seen: list[EpisodeRecord] = []
        evaluate(INLINE, corpus=str(corpus), policies=policies, output=tmp_path, progress=seen.append)
        return {(episode.policy, episode.module) for episode in seen}

    never = {("never", "calls"), ("never", "more/calls")}
    assert run("default") == {("default", module) for module in ("calls", "more/calls", "leaf")}
    assert run("default") == set()
    assert run("default", "never") == never
    assert load_result(tmp_path).policies == ("default", "never")
    episodes = tmp_path / "episodes.jsonl"
    lines = episodes.read_text().splitlines()
    failed = [line.replace('"status": "done"', '"status": "failed"') if '"never"' in line else line for line in lines]
    episodes.write_text("".join(f"{line}\n" for line in failed))
    assert run("default", "never") == never
    assert load_result(tmp_path).failures == []


def test_an_evaluation_that_was_left_resumes(varied: str, tmp_path: Path, nothing_is_left: None) -> None:
    arguments: dict[str, Any] = {"corpus": varied, "policies": ["never", "random"]}
    with Evaluation(INLINE, **arguments, output=tmp_path) as evaluation:
        episodes = evaluation.run()
        first = next(episodes)
        remaining = evaluation.schedule.unfinished
        episodes.close()
    with Evaluation(INLINE, **arguments, output=tmp_path) as evaluation:
        assert first in evaluation.result.episodes
        assert evaluation.schedule.unfinished == remaining
        assert first not in list(evaluation.run())
        resumed = evaluation.result
    assert everything(resumed) == everything(evaluate(INLINE, **arguments))
    assert everything(load_result(tmp_path)) == everything(resumed)


def test_a_policy_gets_callee_features_and_the_metric_of_the_task_is_shown(corpus: Path, tmp_path: Path) -> None:
    features = ("inlining_default", "callee_kept", "callee_users")
    weights = np.array([[1], [0], [0]], np.float32)
    network = Network(features, (weights,), (np.array([-0.5], np.float32),))
    network.save(tmp_path / "clang.safetensors")
    policy = f"mlp:{tmp_path}/clang.safetensors"
    result = evaluate(INLINE, policies=[policy], corpus=str(corpus))
    assert (result.failures, result.change(policy)) == ([], 0)
    arguments: dict[str, Any] = {"corpus": str(corpus), "output": tmp_path / "results"}
    same = evaluate(INLINE, policies={"mine": network}, **arguments)
    assert (same.failures, same.change("mine")) == ([], 0)
    with pytest.raises(MlgoError, match=r"policy mine: recorded network .*, requested network"):
        evaluate(INLINE, policies={"mine": Network(features, (-weights,), network.biases)}, **arguments)
    with pytest.raises(MlgoError, match=r"expected a policy with act\(observation, info\) as 'mine', got dict"):
        evaluate(INLINE, policies={"mine": {}}, **arguments)  # type: ignore[dict-item]  # no policy
    result = evaluate("mlgo/RegAllocPriority-v0", corpus=str(corpus), policies=["default", "random"])
    assert result.metrics == ("spill_cost", "text")
    assert all(words in str(result) for words in ("spill_cost", "text bytes"))
    result = evaluate(INLINE, policies=["always"], corpus=str(corpus), env_kwargs={"metric": "max_frame"})
    grown = sum(episode.grown_frames or 0 for episode in result.episodes)
    assert f"Larger stack frames than plain clang's: always {grown}" in notes(result)


def test_facts_of_modules_are_written_and_read(tmp_path: Path, toolchain: Toolchain) -> None:
    module = next(iter(open_corpus("builtin", toolchain=toolchain)))
    assert ModuleFacts.of(replace(module, metadata={}), bitcode_facts(module)).language == module.metadata["language"]
    facts = [ModuleFacts("a", "12", "34", "C", ("-cc1", "-Oz")), ModuleFacts("b\udcff", "56", None, "unknown", None)]
    assert read_modules(tmp_path) == {}
    write_modules(tmp_path, facts)
    assert list(read_modules(tmp_path).values()) == facts
    (tmp_path / MODULES).write_text('{"module": "a"}\n')
    with pytest.raises(MlgoError, match="expected facts about modules"):
        read_modules(tmp_path)


def test_policies_that_cannot_be_sent_are_refused(corpus: Path, nothing_is_left: None) -> None:
    class Local:
        def act(self, observation: Any, info: Mapping[str, Any]) -> int:
            return 0

    with pytest.raises(MlgoError, match="name them by specification, or use jobs=1"):
        evaluate(INLINE, corpus=str(corpus), policies={"local": Local()}, execution=Execution(2))


def test_nothing_outlives_an_evaluation_that_is_interrupted(corpus: Path, tmp_path: Path) -> None:
    output, asked = tmp_path / "results", tmp_path / "asked"
    command = ["evaluate", INLINE, "--corpus", str(corpus), "--policy", f"{FAULTY}:Endless"]
    process = subprocess.Popen(
        [Path(sys.executable).with_name("mlgo-gym"), *command, "--jobs", "2", "--output", str(output)],
        env={**os.environ, "MLGO_TEST_ASKED": str(asked)},
        start_new_session=True,
        # A shell's background job, which this test may be part of, ignores Ctrl-C, and so would its children.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        until(lambda: asked.exists() and finished(output) == 2)
        assert len(marked(asked)) >= 4  # the program, its two workers, and the clang that waits for the policy
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does at Ctrl-C
        out, err = process.communicate(timeout=60)
        until(lambda: marked(asked) == [])
    finally:
        process.kill()
        process.communicate()
    assert (finished(output), process.returncode) == (2, 130)
    last = err.splitlines()[-1]  # a line of progress may be before it
    assert re.fullmatch(r"mlgo-gym: interrupted with [12] episodes left; the same command continues", last)
    assert "modules" in out


def finished(output: Path) -> int:
    return len(load_result(output).episodes)


def until(condition: Any) -> None:
    deadline = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def marked(asked: Path) -> list[int]:
    """Return the living processes that have inherited the environment of the test's program."""
    found = []
    for environment in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):
            if f"MLGO_TEST_ASKED={asked}".encode() in environment.read_bytes():
                found.append(int(environment.parent.name))
    return found


def test_modules_that_a_policy_was_trained_on_are_marked_for_it_alone(corpus: Path, tmp_path: Path) -> None:
    network = tmp_path / "network.safetensors"
    constant(1).save(network)
    modules = {module.name: module for module in open_corpus(corpus)}
    write_sidecar_digests(network, {modules["calls"].source_digest()[:16]: "calls"})
    output = tmp_path / "results"
    first = evaluate("mlgo/Inline-v0", corpus=str(corpus), policies={"mine": f"mlp:{network}"}, output=output)
    assert first.configuration.trained_on == {"mine": ("calls", "more/calls")}
    both = evaluate("mlgo/Inline-v0", corpus=str(corpus), policies=["threshold:5"], output=output)
    assert load_result(output).configuration.trained_on == {"mine": ("calls", "more/calls")}
    trained = {summary.policy: summary.changes["text"].trained for summary in both.summaries()}
    assert trained == {"mine": {"calls", "more/calls"}, "threshold:5": frozenset()}
    assert [change.trained for _, _, change in both.pairs] == [{"calls", "more/calls"}]
    (pair,) = compare({"one": first, "two": both}).pairs
    assert pair[2].trained == {"calls", "more/calls"}


def test_results_are_read_back_without_an_unfinished_line(tmp_path: Path) -> None:
    failed = record("default", "a", status="failed", error={"kind": "exit"})
    first, second = record("default", "b"), record("default", "a")
    output = tmp_path / "new" / "folder"
    with closing(ResultFolder(output, CONFIGURATION)) as folder:
        folder.append(failed)
        folder.append(first)
        assert read_episodes(output) == [failed, first]
        folder.append(second)
    assert sorted(read_episodes(output), key=lambda episode: episode.module) == [second, first], "the last one counts"
    assert read_configuration(output) == CONFIGURATION
    path = output / "episodes.jsonl"
    for cut in (1, 60):
        path.write_bytes(path.read_bytes()[:-cut])
        assert sorted(read_episodes(output), key=lambda episode: episode.module) == [failed, first]
        with closing(ResultFolder(output, CONFIGURATION)) as folder:
            folder.append(second)
        assert read_episodes(output)[-1] in (first, second)
        assert len(read_episodes(output)) == 2


def test_temporary_files_of_killed_writers_are_removed(tmp_path: Path) -> None:
    left, written = (tmp_path / f".meta.json.{pid}.{'0a' * 8}" for pid in (2**22 + 1, os.getpid()))
    for path in (left, written, tmp_path / ".hidden"):
        path.touch()
    ResultFolder(tmp_path, CONFIGURATION).close()
    assert not left.exists()
    assert {written.name, ".hidden", "meta.json", "episodes.jsonl"} == {path.name for path in tmp_path.iterdir()}


def test_one_process_at_a_time_adds_policies_of_one_configuration(tmp_path: Path) -> None:
    with closing(ResultFolder(tmp_path, CONFIGURATION)), pytest.raises(MlgoError, match="another process writes"):
        ResultFolder(tmp_path, CONFIGURATION)
    # The location of the corpus does not matter.
    later = replace(CONFIGURATION, policies={"mine.py:P": "1234"}, corpus="elsewhere")
    with closing(ResultFolder(tmp_path, later)) as folder:
        assert folder.configuration.policies == {"default": "default", "mine.py:P": "1234"}
    assert read_configuration(tmp_path).policies == {"default": "default", "mine.py:P": "1234"}
    for name in ("environment", "split", "clang", "mlgo_gym", "seed", "counter", "modules_digest", "contents"):
        change: dict[str, Any] = {name: "other"}
        with pytest.raises(MlgoError, match=f"{name.partition('_digest')[0]}: recorded"):
            ResultFolder(tmp_path, replace(CONFIGURATION, **change))
    with pytest.raises(MlgoError, match=r"policy mine\.py:P: recorded 1234, requested 5678"):
        ResultFolder(tmp_path, replace(CONFIGURATION, policies={"mine.py:P": "5678"}))


def test_headers_and_lines_of_another_form_are_refused_and_kept(tmp_path: Path) -> None:
    with pytest.raises(MlgoError, match=r"got no meta\.json"):
        read_configuration(tmp_path)
    (tmp_path / "episodes.jsonl").write_text("precious\n")
    with pytest.raises(MlgoError, match=r"no meta\.json"):
        ResultFolder(tmp_path, CONFIGURATION)
    assert [path.name for path in tmp_path.iterdir()] == ["episodes.jsonl"]
    assert (tmp_path / "episodes.jsonl").read_text() == "precious\n"
    for content in ("", "{}", '{"format": 0}', '{"format": 1, "colour": 2}', "[]"):
        (tmp_path / "meta.json").write_text(content)
        with pytest.raises(MlgoError, match="choose another output"):
            read_configuration(tmp_path)
    for line in ("", "{}", "[1]", '{"policy": "x"', '{"metrics": {"a": 3}}'):
        (tmp_path / "episodes.jsonl").write_text(f"{line}\n")
        with pytest.raises(MlgoError, match=r"episodes\.jsonl, line 1: expected (a result|JSON)"):
            read_episodes(tmp_path)
