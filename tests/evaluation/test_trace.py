"""Traces: training logs that other readers accept; the reproduction of traces and evaluations by recorded actions."""

import base64
import json
import zlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest

from mlgo_gym import EvaluationResult, MlgoError, evaluate, load_result
from mlgo_gym.envs import InlineEnv
from mlgo_gym.evaluation.record import MAX_BYTES, EpisodeRecord, unpack_actions
from mlgo_gym.evaluation.runner import Trajectory
from mlgo_gym.evaluation.trace import is_reproducible, log_names, trace, validate
from tests.fakes.compiles import FaultyClang

POLICY = "threshold:0"
PLAIN = "clang:-mllvm,-inline-threshold=0"


def episodes_of(result: EvaluationResult) -> list[EpisodeRecord]:
    """Return the episodes with decisions, and the failed ones."""
    return [episode for episode in result.episodes if episode.status != "no-decisions"]


def problems(folder: Path, **arguments: Any) -> dict[tuple[str, str], str]:
    """Return the problems of a reproduction by policy and module."""
    return {(verdict.policy, verdict.module): verdict.problem for verdict in validate(folder, **arguments)}


def edit(folder: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Change each line of recorded episodes."""
    path = folder / "episodes.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    for line in lines:
        change(line)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


def test_modules_with_a_decision_have_a_log(corpus: Path, tmp_path: Path) -> None:
    folder = tmp_path / "trace"
    episodes = episodes_of(trace("mlgo/Inline-v0", POLICY, corpus=str(corpus), output=folder))
    assert [episode.module for episode in episodes] == ["calls", "more/calls"]
    logs = sorted(folder.rglob("*.log"))
    assert [path.relative_to(folder).as_posix() for path in logs] == ["logs/calls.log", "logs/more/calls.log"]
    data = logs[0].read_bytes()
    header = data.partition(b"\n")[0].decode()
    assert header == json.dumps(json.loads(header), separators=(",", ":"))
    assert '"inlining_decision","type":"int64_t","port":0,"shape":[1]}],"score":{"name":"reward",' in header
    result = load_result(folder)
    assert episodes_of(result) == episodes
    assert result.without_decisions == ["leaf"]
    assert (result.configuration.environment, result.policies) == ("mlgo/Inline-v0", (POLICY,))
    assert problems(folder) == {(POLICY, "calls"): "", (POLICY, "more/calls"): ""}


@pytest.mark.slow
@pytest.mark.parametrize(
    "file", sorted((Path(__file__).parents[2] / "docs/results/submissions").glob("*.json")), ids=str
)
def test_a_submission_is_reproduced_on_a_sample_and_a_wrong_size_is_noticed(file: Path, tmp_path: Path) -> None:
    result = load_result(file)
    own = [each for each in result.episodes if each.module.startswith("builtin")]  # others would be fetched
    module, corpus = min(own, key=lambda each: each.decisions).module, "builtin@Oz,builtin@Os"
    verdicts = validate(file, corpus=corpus, modules={module})
    assert [(verdict.module, verdict.problem) for verdict in verdicts] == [(module, "")] * len(result.policies)
    data = json.loads(file.read_text())
    next(entry for entry in data["episodes"] if entry["module"] == module)["metrics"]["text"][0] += 1
    changed = tmp_path / "changed.json"
    changed.write_text(json.dumps(data))
    assert sum("text was" in verdict.problem for verdict in validate(changed, corpus=corpus, modules={module})) == 1
    changed.write_text(json.dumps({**data, "episodes": None}))
    with pytest.raises(MlgoError, match="expected a submission, got another form"):
        load_result(changed)


def test_a_crash_is_reproduced_if_it_recurs(calls: Path, tmp_path: Path) -> None:
    clang = FaultyClang(tmp_path, calls)
    clang.set_fault("crash@answer")
    result = evaluate(
        "mlgo/Inline-v0",
        policies=["never"],
        corpus=str(calls),
        output=tmp_path / "r",
        env_kwargs={"clang": clang.program},
    )
    (failed,) = result.failures
    assert failed.error is not None
    assert (failed.error["kind"], failed.decisions) == ("signal", 1)
    assert {*failed.error} == {"kind", "message", "exit_status", "stderr"}
    assert problems(tmp_path / "r", clang=clang.program) == {("never", "calls"): ""}
    clang.set_fault("exit@answer")
    assert "signal, exit status -11" in problems(tmp_path / "r", clang=clang.program)["never", "calls"]
    clang.set_fault("")
    assert "got more" in problems(tmp_path / "r", clang=clang.program)["never", "calls"]
    kinds = ["exit", "object", "program", "protocol", "signal", "timeout", "memory", "policy"]
    assert [kind for kind in kinds if is_reproducible(replace(failed, error={"kind": kind}))] == kinds[:5]
    edit(tmp_path / "r", lambda line: line["error"].update(kind="timeout"))
    assert problems(tmp_path / "r", clang=clang.program) == {}


@pytest.mark.parametrize(
    ("environment", "policy", "budget"),
    [("mlgo/RegAllocPriority-v0", "random", None), ("mlgo/Joint-v0", "random", None), ("mlgo/Inline-v0", POLICY, 3)],
)
def test_tasks_are_reproduced(environment: str, policy: str, budget: int | None, corpus: Path, tmp_path: Path) -> None:
    arguments = {"max_decisions": budget}
    result = trace(environment, policy, corpus=str(corpus), output=tmp_path / "t", limit=2, env_kwargs=arguments)
    assert sum(episode.decisions for episode in result.episodes) > 0
    assert any(episode.handed_over for episode in result.episodes) == bool(budget)
    assert not any(problems(tmp_path / "t").values())


def test_an_interrupted_trace_is_resumed(corpus: Path, tmp_path: Path) -> None:
    def interrupt(_: Trajectory) -> None:
        raise KeyboardInterrupt

    arguments: dict[str, Any] = {"corpus": str(corpus), "output": tmp_path / "t"}
    with pytest.raises(KeyboardInterrupt):
        trace("mlgo/Inline-v0", POLICY, progress=interrupt, **arguments)
    seen: list[Trajectory] = []
    result = trace("mlgo/Inline-v0", POLICY, progress=seen.append, **arguments)
    assert (len(seen), len(result.episodes)) == (2, 3)
    assert not any(problems(tmp_path / "t").values())
    # Results of two policies would have one log, and those of `evaluate` have none.
    evaluate("mlgo/Inline-v0", policies=["never"], corpus=str(corpus), output=tmp_path / "e")
    for policy, output in (("never", "t"), ("never", "e")):
        with pytest.raises(MlgoError, match="expected a trace of never alone in"):
            trace("mlgo/Inline-v0", policy, corpus=str(corpus), output=tmp_path / output)


def test_files_outside_the_output_are_not_touched(corpus: Path, calls: Path) -> None:
    with pytest.raises(MlgoError, match="expected an empty folder"):
        trace("mlgo/Inline-v0", "default", corpus=str(corpus), output=corpus)
    task = InlineEnv(corpus=str(calls)).task
    for name in ("/etc/passwd", "../outside", "a/../../b"):
        with pytest.raises(MlgoError, match="without a leading slash"):
            log_names(name, task)


def test_results_are_reproduced_unless_a_size_is_wrong_or_actions_are_missing(corpus: Path, tmp_path: Path) -> None:
    policies, results = ("random", PLAIN, "never"), tmp_path / "r"
    evaluate("mlgo/Inline-v0", policies=policies, corpus=str(corpus), output=results, seed=3)
    found = problems(results, corpus=str(corpus))
    assert {*found} >= {(policy, module) for policy in policies for module in ("calls", "more/calls")}
    assert not any(found.values())

    def change(line: Any) -> None:
        if line["module"] == "calls":
            line["metrics"]["text"][0] -= 8

    edit(results, change)
    wrong = {key: problem for key, problem in problems(results, corpus=str(corpus)).items() if problem}
    assert {*wrong} == {(policy, "calls") for policy in policies}
    assert all("text was" in problem for problem in wrong.values())
    edit(results, lambda line: line["metrics"].pop("llvm_size", None))
    assert {problem.partition(",")[0] for problem in problems(results, corpus=str(corpus)).values()} == {
        "llvm_size was not measured"
    }
    edit(results, lambda line: line.pop("actions"))
    found = problems(results, corpus=str(corpus))
    without = {policy for (policy, _), problem in found.items() if "expected recorded actions" in problem}
    assert without == {"random", "never"}


def test_actions_that_would_fill_the_memory_are_refused() -> None:
    bomb = base64.b64encode(zlib.compress(bytes(MAX_BYTES + 2))).decode()
    assert len(bomb) < 100_000
    with pytest.raises(MlgoError, match="more than 67,108,864 bytes"):
        unpack_actions(bomb, gym.spaces.Discrete(2))
