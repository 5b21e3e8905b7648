"""Labels by many flips in one compile against single flips by fork: how many for the same time, and how alike.

    python benchmarks/labels.py --json docs/results/label_speed.json

A label is the bytes of a module with a call inlined less those without. Single flips by fork are the best that there is
for one decision: the compile that waits at a decision is copied, the copy takes the other answer, and clang decides
behind it. Both kinds are taken in turn, module by module, in one run; what counts is the processor's time of this
process and of all compilers, so a busy machine changes the ratio little. Single flips are spread over all decisions,
from the first to the last; their own walk along the path of clang's choices is part of what they cost, once.
Agreement is what `mlgo-gym label --check` reports: some labels again, by flipping that decision alone.

A compile can tell two flips apart only where they change different functions. So the function that most decisions reach
(those within it, within what is inlined into it, and those that may drop or keep it) bounds what a compile can label of
all decisions, on the average; that bound is printed too. The first compiles label more, since few meet there.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
from collections import Counter
from pathlib import Path
from typing import Any

from mlgo_gym.envs import InlineEnv
from mlgo_gym.episode.many_flips import Territory
from mlgo_gym.episode.placed_compile import compile_placed
from mlgo_gym.policies import load_policy
from mlgo_gym.search.budget import Budget
from mlgo_gym.search.search_space import SearchSpace
from mlgo_gym.training.label_module import label_module

MODULES = ("builtin:cpp/linalg", "zstd:zstd_double_fast.o", "zstd:huf_decompress.o", "sentencepiece:src/normalizer.o")
"""Modules of more than 500 decisions at -Oz, of C and of C++, that compile in less than two seconds."""


def processor() -> float:
    """Return the processor's time of this process and of its children that have ended, in seconds."""
    return sum(os.times()[:4])


def by_fork(env: InlineEnv, name: str, flips: int) -> tuple[int, float]:
    """Flip so many decisions alone, and return the number of labels and their processor's time."""
    started = processor()
    space = SearchSpace(env, env.corpus.module(name), Budget())
    with space.root() as branch:
        count = len(branch.fork().roll_out().actions)
        wanted = {round((number + 0.5) * count / flips) for number in range(flips)}
        labels = 0
        while branch.decision is not None:
            if len(branch.actions) in wanted:
                with branch.fork() as twin:
                    twin.take(1 - twin.default)
                    twin.roll_out()
                labels += 1
            branch.take(branch.default)
    return labels, processor() - started


def bound(env: InlineEnv, name: str) -> float:
    """Return the labels that a compile can give on the average, if all decisions are to be labelled."""
    made = compile_placed(
        env.compilation(env.corpus.module(name)), env.task, lambda each: int(env.task.default_action(each)), 900.0
    )
    territory = Territory(made.decisions, made.functions.functions)
    reached = Counter(function for decision in made.decisions for function in territory.of([decision]))
    return len(made.decisions) / max(reached.values())


def compare(corpus: str, ending: str, compiles: int, flips: int, check: int) -> dict[str, Any]:
    """Return the figures of one module."""
    env = InlineEnv(corpus=corpus, timeout=900.0)
    name = next(module.name for module in env.corpus if module.name.endswith(ending))
    compilation, policy = env.compilation(env.corpus.module(name)), load_policy("default", env)
    started = processor()
    made = label_module(compilation, env.task, policy, compiles=compiles, check=check, timeout=900.0)
    seconds = processor() - started - made.check_seconds
    forked, forked_seconds = by_fork(env, name, flips)
    most = bound(env, name)
    env.close()
    signs = sum((label > 0) == (alone > 0) and (label < 0) == (alone < 0) for label, alone in made.checked)
    return {
        "module": f"{corpus}:{name}",
        "decisions": made.decisions,
        "labels": len(made.labels),
        "compiles": made.compiles,
        "labels_per_compile": len(made.labels) / made.compiles,
        "bound_of_labels_per_compile": most,
        "seconds": seconds,
        "forked_labels": forked,
        "forked_seconds": forked_seconds,
        "ratio": (len(made.labels) / seconds) / (forked / forked_seconds),
        "checked": len(made.checked),
        "exact": sum(label == alone for label, alone in made.checked),
        "same_sign": signs,
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--modules", nargs="+", default=MODULES, help="CORPUS:ENDING of each")
    parser.add_argument("--compiles", type=int, default=20, help="by many flips, for each module")
    parser.add_argument("--flips", type=int, default=16, help="single ones by fork, for each module")
    parser.add_argument("--check", type=int, default=10, help="labels that are measured again by a single flip")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    titles = f"{'module':46} {'decisions':>9} {'labels/s':>9} {'by fork':>8} {'ratio':>6}"
    print(f"{titles} {'exact':>7} {'sign':>7} {'bound':>6}")
    rows = []
    for spec in arguments.modules:
        corpus, _, ending = spec.partition(":")
        row = compare(corpus, ending, arguments.compiles, arguments.flips, arguments.check)
        rows.append(row)
        exact, signs = (f"{row[key]}/{row['checked']}" for key in ("exact", "same_sign"))
        print(
            f"{row['module']:46} {row['decisions']:9} {row['labels'] / row['seconds']:9.1f} "
            f"{row['forked_labels'] / row['forked_seconds']:8.2f} {row['ratio']:6.1f} {exact:>7} {signs:>7} "
            f"{row['bound_of_labels_per_compile']:6.1f}",
            flush=True,
        )
        if arguments.json:
            median = statistics.median(each["ratio"] for each in rows)
            arguments.json.write_text(json.dumps({"median_ratio": median, "modules": rows}, indent=1) + "\n")
    print(f"median ratio {statistics.median(row['ratio'] for row in rows):.1f}")


if __name__ == "__main__":
    main()
