"""What an evaluation costs above its environments: the same episodes, by `evaluate` and by a bare loop, in turn.

    python benchmarks/evaluate_overhead.py --corpus builtin --rounds 7 --json overhead.json

Both play one policy on every module with decisions, in the same order, as many at once, in one process.
The bare loop does what a user's own would: it begins episodes, answers what `recv()` gives, and adds up rewards. An
evaluation also writes each result to its folder. Baselines are known before the first round. Rounds alternate, and the
median of the ratios within rounds counts: of the clock on a quiet machine, of processor time (of this process and its
compilers) on any.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium as gym
from gymnasium.vector import AutoresetMode

import mlgo_gym
from mlgo_gym.corpus.corpus import Corpus
from mlgo_gym.corpus.opening import open_corpus
from mlgo_gym.evaluation import Evaluation
from mlgo_gym.evaluation.environment import make_environment
from mlgo_gym.llvm.toolchain import find_toolchain
from mlgo_gym.policies import act_batch, load_policy
from mlgo_gym.policies.batching import rows
from mlgo_gym.vector.info_batch import unbatch_infos


def bare(environment: str, corpus: Corpus, names: list[str], spec: str, envs: int) -> dict[str, float]:
    """Play every module once, and return the rewards."""
    vector: Any = gym.make_vec(
        environment,
        num_envs=envs,
        corpus=corpus,
        autoreset_mode=AutoresetMode.DISABLED,
        batch_size=1,
        prefetch=0,
    ).unwrapped
    policy = load_policy(spec, make_environment(environment, {"corpus": corpus}))
    waiting, playing, rewards = list(reversed(names)), {}, {}

    def begin(number: int) -> None:
        if waiting:
            playing[number] = waiting.pop()
            modules = [playing[number] if each == number else None for each in range(envs)]
            vector.async_reset(options={"module": modules}, env_ids=[number])

    for number in range(envs):
        begin(number)
    while playing:
        observations, gained, terminated, truncated, infos = vector.recv()
        numbers = infos.pop("env_id").tolist()
        for row, (number, info) in enumerate(zip(numbers, unbatch_infos(infos, len(numbers)), strict=True)):
            if terminated[row] or truncated[row]:
                rewards[playing.pop(number)] = float(gained[row])
                begin(number)
            else:
                [action] = act_batch(policy, rows(observations, [row]), [info])
                vector.send([action], [number])
    vector.close()
    return rewards


def evaluated(environment: str, corpus: Corpus, names: list[str], spec: str, envs: int) -> dict[str, float]:
    """Evaluate every module, and return the rewards."""
    with (
        tempfile.TemporaryDirectory() as folder,
        Evaluation(environment, policies=[spec], corpus=corpus.filter(names=names), output=folder) as evaluation,
    ):
        return {result.module: float(result.reward or 0.0) for result in evaluation.run(1, envs)}


def taken(work: Callable[[], dict[str, float]]) -> tuple[float, float, dict[str, float]]:
    """Return the seconds of some work by the clock, its processor time and its result."""
    before, began = processor_seconds(), time.perf_counter()
    result = work()
    return time.perf_counter() - began, processor_seconds() - before, result


def processor_seconds() -> float:
    """Return the processor time of this process and of those that it has waited for."""
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--environment", default="mlgo/Inline-v0")
    parser.add_argument("--corpus", default="builtin")
    parser.add_argument("--largest", type=int, default=100_000, help="bytes of bitcode of a module")
    parser.add_argument("--policies", default="default,threshold:0")
    parser.add_argument("--envs", default="1,2,4")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    corpus = open_corpus(given.corpus, toolchain=find_toolchain()).filter(bytes=(0, given.largest))
    env = make_environment(given.environment, {"corpus": corpus})
    counts = {name: sum(env.decisions(env.corpus.module(name)).values()) for name in corpus.names}
    names = sorted((name for name in corpus.names if counts[name]), key=lambda name: (-corpus.size(name), name))
    print(f"{len(names)} modules with {sum(counts.values())} decisions of clang's own way")
    print(f"{'policy':14} {'envs':>4} {'bare, s':>8} {'evaluate, s':>11} {'clock':>8} {'processor':>9}  in rounds")
    table = []
    for spec in given.policies.split(","):
        for envs in map(int, given.envs.split(",")):
            arguments = (given.environment, corpus, names, spec, envs)
            expected = bare(*arguments)
            clock, processor, walls = [], [], []
            for number in range(given.rounds):
                both = [lambda: bare(*arguments), lambda: evaluated(*arguments)]  # noqa: B023 - called at once
                order = (0, 1) if number % 2 == 0 else (1, 0)
                found = {which: taken(both[which]) for which in order}
                if any(found[which][2] != expected for which in order):
                    raise SystemExit("the two came to different rewards")
                clock.append(found[1][0] / found[0][0] - 1)
                processor.append(found[1][1] / found[0][1] - 1)
                walls.append((found[0][0], found[1][0]))
            row = {
                "policy": spec,
                "envs": envs,
                "bare_seconds": statistics.median(wall for wall, _ in walls),
                "evaluate_seconds": statistics.median(wall for _, wall in walls),
                "clock": statistics.median(clock),
                "processor": statistics.median(processor),
                "clock_rounds": clock,
                "processor_rounds": processor,
            }
            table.append(row)
            print(
                f"{spec:14} {envs:4} {row['bare_seconds']:8.2f} {row['evaluate_seconds']:11.2f} {row['clock']:+8.1%} "
                f"{row['processor']:+9.1%}  {' '.join(f'{each:+.1%}' for each in processor)}",
                flush=True,
            )
    if given.json:
        given.json.write_text(json.dumps({"mlgo_gym": mlgo_gym.__version__, "table": table}, indent=1) + "\n")


if __name__ == "__main__":
    main()
