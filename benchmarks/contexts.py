"""What contexts cost: the processor's time of compiles that answer clang's own choices, without and with them.

    python benchmarks/contexts.py --corpus zstd,sentencepiece --modules 6 --json contexts.json

Times are user and system together, of clang and of this process, for compiles without contexts, with components, and
with components and callees, in turn; the least of several rounds each, and the ratios of those.
"""

from __future__ import annotations

import argparse
import json
import resource
from pathlib import Path
from typing import Any

import numpy as np

from mlgo_gym.corpus import Corpus, open_corpus
from mlgo_gym.envs import InlineEnv
from mlgo_gym.llvm.toolchain import find_toolchain
from mlgo_gym.session.session import Session

TIMEOUT = 600.0
KINDS: dict[str, dict[str, Any]] = {
    "without": {},
    "components": {"contexts": True, "callees": False},
    "components and callees": {"contexts": True, "callees": True},
}


def processor_seconds() -> float:
    """Return the processor's time of this process and of the children that it has waited for."""
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def compile_once(env: InlineEnv, name: str, kind: str) -> tuple[float, int]:
    """Return the processor's time of one compile, and how many decisions it had."""
    compilation = env.compilation(env.corpus.module(name))
    begun = processor_seconds()
    decisions = 0
    with Session(compilation.command, env.task.advisors, **KINDS[kind]) as session:
        while (decision := session.wait(TIMEOUT)) is not None:
            session.advise(env.task.default_advice(decision))
            decisions += 1
        session.finish(TIMEOUT)
    return processor_seconds() - begun, decisions


def draw(corpus: Corpus, count: int, seed: int) -> list[str]:
    """Return the names of random modules, one of each of so many sizes."""
    if count >= len(corpus):
        return list(corpus.names)
    return [module.name for module in corpus.sample(count, seed=seed, strata=count)]


def main() -> None:
    """Measure, and print a row for each module."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--corpus", default="zstd,sentencepiece")
    parser.add_argument("--modules", type=int, default=6)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--clang")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    env = InlineEnv(corpus=open_corpus(arguments.corpus, toolchain=find_toolchain(arguments.clang)))
    rows: list[dict[str, Any]] = []
    print("| module | decisions | " + " | ".join(KINDS) + " |\n|" + "---|" * (2 + len(KINDS)))
    for name in draw(env.corpus, arguments.modules, arguments.seed):
        times: dict[str, list[float]] = {kind: [] for kind in KINDS}
        for _ in range(arguments.rounds):
            for kind in KINDS:
                seconds, decisions = compile_once(env, name, kind)
                times[kind].append(seconds)
        least = {kind: min(each) for kind, each in times.items()}
        ratios = {kind: least[kind] / least["without"] for kind in KINDS}
        rows.append({"module": name, "decisions": decisions, "seconds": times, "ratios": ratios})
        cells = [f"{least['without']:.2f} s", *(f"{ratios[kind]:.2f}" for kind in list(KINDS)[1:])]
        print("| " + " | ".join([name, str(decisions), *cells]) + " |", flush=True)
    total = {kind: sum(min(row["seconds"][kind]) for row in rows) for kind in KINDS}
    mean = {kind: float(np.exp(np.mean(np.log([row["ratios"][kind] for row in rows])))) for kind in KINDS}
    print("total:", {kind: round(total[kind] / total["without"], 3) for kind in KINDS})
    print("geometric mean:", {kind: round(value, 3) for kind, value in mean.items()})
    if arguments.json is not None:
        figures = {"arguments": {key: str(value) for key, value in vars(arguments).items()}, "modules": rows}
        arguments.json.write_text(json.dumps({**figures, "total": total, "geometric_mean": mean}, indent=1) + "\n")


if __name__ == "__main__":
    main()
