"""Speed of `evaluate`: its overhead over a bare loop, and its time by the numbers of processes and environments.

    python -m benchmarks.evaluation overhead --corpus builtin --rounds 7 --json overhead.json
    python -m benchmarks.evaluation settings --corpus builtin --policies default,mlp:FILE --json settings.json

`overhead` prints the relative time that an evaluation takes more than a bare loop over the same environments, for each
policy and number of environments. Both run every module with decisions once, in the same order, in one process. The
bare loop starts episodes, answers `recv()` and keeps the rewards; an evaluation also writes its results. The CPU time
(of this process and its compilers) holds on a busy machine.

`settings` prints seconds for each number of processes (`jobs`) and of environments per process (`envs`), and the ratio
to one environment per process. All settings must give the same sizes, rewards and actions.

Baselines are measured before the first round. The compared settings take turns; medians count.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium as gym
from gymnasium.vector import AutoresetMode

import mlgo_gym
from benchmarks.measuring import Table, command_line, cpu_seconds, write_json
from mlgo_gym.corpus.modules.corpus import Corpus
from mlgo_gym.corpus.opening import open_corpus
from mlgo_gym.evaluation import Evaluation, EvaluationResult, evaluate
from mlgo_gym.make_env import make_environment
from mlgo_gym.policies import act_batch, load_policy
from mlgo_gym.policies.protocol import rows
from mlgo_gym.scheduling import Execution
from mlgo_gym.vector.info_batch import unbatch_infos

Rewards = dict[str, float]


def bare_loop(environment: str, corpus: Corpus, names: list[str], policy_name: str, envs: int) -> Rewards:
    """Run every module once; return the rewards."""
    vector: Any = gym.make_vec(
        environment,
        num_envs=envs,
        corpus=corpus,
        autoreset_mode=AutoresetMode.DISABLED,
        batch_size=1,
        prefetch=0,
    ).unwrapped
    policy = load_policy(policy_name, make_environment(environment, {"corpus": corpus}))
    remaining, running, rewards = list(reversed(names)), dict[int, str](), {}

    def start(number: int) -> None:
        if remaining:
            running[number] = remaining.pop()
            modules = [running[number] if each == number else None for each in range(envs)]
            vector.async_reset(options={"module": modules}, env_ids=[number])

    for number in range(envs):
        start(number)
    while running:
        observations, step_rewards, terminated, truncated, infos = vector.recv()
        numbers = infos.pop("env_id").tolist()
        for row, (number, info) in enumerate(zip(numbers, unbatch_infos(infos, len(numbers)), strict=True)):
            if terminated[row] or truncated[row]:
                rewards[running.pop(number)] = float(step_rewards[row])
                start(number)
            else:
                [action] = act_batch(policy, rows(observations, [row]), [info])
                vector.send([action], [number])
    vector.close()
    return rewards


def evaluated(environment: str, corpus: Corpus, names: list[str], policy_name: str, envs: int) -> Rewards:
    """Evaluate every module; return the rewards."""
    with (
        tempfile.TemporaryDirectory() as folder,
        Evaluation(environment, policies=[policy_name], corpus=corpus.filter(names=names), output=folder) as evaluation,
    ):
        return {result.module: float(result.reward or 0.0) for result in evaluation.run(envs=envs)}


def timed(work: Callable[[], Rewards]) -> tuple[float, float, Rewards]:
    """Return the seconds, the CPU seconds and the result of a function."""
    cpu, start = cpu_seconds(), time.perf_counter()
    result = work()
    return time.perf_counter() - start, cpu_seconds() - cpu, result


def overhead(options: argparse.Namespace, corpus: Corpus) -> list[dict[str, Any]]:
    """Compare evaluations with the bare loop."""
    env = make_environment(options.environment, {"corpus": corpus})
    counts = {name: sum(env.decisions(env.corpus.module(name)).values()) for name in corpus.names}
    names = sorted((name for name in corpus.names if counts[name]), key=lambda name: (-corpus.size(name), name))
    print(f"{len(names)} modules with {sum(counts.values())} decisions by clang's own choices")
    titles = {
        "policy": "<14",
        "envs": ">4",
        "bare s": ">8.2f",
        "evaluate s": ">10.2f",
        "clock": ">+8.1%",
        "CPU": ">+8.1%",
    }
    table, found = Table({**titles, "CPU by round": "<20"}), []
    for policy_name in options.policies.split(","):
        for envs in map(int, options.envs.split(",")):
            arguments = (options.environment, corpus, names, policy_name, envs)
            expected = bare_loop(*arguments)
            clock, cpu, seconds = [], [], []
            for number in range(options.rounds):
                both = [partial(bare_loop, *arguments), partial(evaluated, *arguments)]
                order = (0, 1) if number % 2 == 0 else (1, 0)
                times = {which: timed(both[which]) for which in order}
                if any(times[which][2] != expected for which in order):
                    raise SystemExit("expected equal rewards from the bare loop and from the evaluation, got others")
                clock.append(times[1][0] / times[0][0] - 1)
                cpu.append(times[1][1] / times[0][1] - 1)
                seconds.append((times[0][0], times[1][0]))
            row = {
                "policy": policy_name,
                "envs": envs,
                "bare_seconds": statistics.median(bare for bare, _ in seconds),
                "evaluate_seconds": statistics.median(evaluation for _, evaluation in seconds),
                "clock": statistics.median(clock),
                "cpu": statistics.median(cpu),
            }
            table.row(*row.values(), " ".join(f"{each:+.1%}" for each in cpu))
            found.append({**row, "clock_rounds": clock, "cpu_rounds": cpu})
    return found


def outcome(result: EvaluationResult) -> list[tuple[Any, ...]]:
    """Return the parts of a result that do not depend on time.

    Raises:
        SystemExit: an episode failed.
    """
    if result.failures:
        raise SystemExit(f"an episode failed: {result.failures[0]}")
    return sorted((each.policy, each.module, each.metrics, each.reward, each.actions) for each in result.episodes)


def settings(options: argparse.Namespace, corpus: Corpus) -> list[dict[str, Any]]:
    """Compare numbers of processes and environments."""
    policies = options.policies.split(",")
    tried = [(int(jobs), int(envs)) for jobs in options.jobs.split(",") for envs in options.envs.split(",")]

    def run(jobs: int, envs: int) -> tuple[float, EvaluationResult]:
        start = time.perf_counter()
        result = evaluate(options.environment, corpus=corpus, policies=policies, execution=Execution(jobs), envs=envs)
        return time.perf_counter() - start, result

    _, first = run(1, 1)
    times: dict[tuple[int, int], list[float]] = {setting: [] for setting in tried}
    for _ in range(options.rounds):
        for setting in tried:
            seconds, result = run(*setting)
            if outcome(result) != outcome(first):
                raise SystemExit(f"expected equal results for all settings, got others for (jobs, envs) = {setting}")
            times[setting].append(seconds)
    print(f"{len(first.episodes)} episodes, {sum(each.decisions for each in first.episodes):,} decisions")
    table, found = Table({"jobs": ">4", "envs": ">4", "seconds": ">8.2f", "ratio to envs=1": ">15.2f"}), []
    for jobs, envs in tried:
        # Ratios within rounds: the load of the machine is similar.
        pairs = zip(times.get((jobs, 1), times[jobs, envs]), times[jobs, envs], strict=True)
        ratio = statistics.median(one / several for one, several in pairs)
        table.row(jobs, envs, statistics.median(times[jobs, envs]), ratio)
        found.append({"jobs": jobs, "envs": envs, "seconds": times[jobs, envs], "ratio": ratio})
    return found


def main() -> None:
    """Measure, print, write."""
    parser = command_line(__doc__)
    parser.add_argument("compare", choices=("overhead", "settings"))
    parser.add_argument("--environment", default="mlgo/Inline-v0", help="id of the environment")
    parser.add_argument("--corpus", default="builtin", help="any corpus of mlgo-gym (default: builtin)")
    parser.add_argument("--largest", type=int, default=100_000, help="maximal bytes of bitcode of a module")
    parser.add_argument("--policies", default="default,threshold:0", help="names, with commas between")
    parser.add_argument("--jobs", default="1,2", help="numbers of processes, for `settings`")
    parser.add_argument("--envs", default="1,2,4", help="numbers of environments in a process")
    parser.add_argument("--rounds", type=int, default=5, help="rounds of each comparison (default: 5)")
    parser.add_argument("--json", type=Path, help="JSON file to write")
    options = parser.parse_args()
    corpus = open_corpus(options.corpus).filter(bytes=(0, options.largest))
    table = overhead(options, corpus) if options.compare == "overhead" else settings(options, corpus)
    facts = {"mlgo_gym": mlgo_gym.__version__, "corpus": options.corpus, "policies": options.policies}
    write_json(options.json, {**facts, "table": table})


if __name__ == "__main__":
    main()
