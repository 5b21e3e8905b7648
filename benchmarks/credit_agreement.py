"""Whether credit is right: its books, and how often it agrees with compiles that change one thing alone.

    python benchmarks/credit_agreement.py --corpus catalogue@Oz --modules 10 --json credit_agreement.json

For random modules of a corpus that have a number of decisions within bounds:

- the sizes of all functions are summed, and must be `.text`;
- clang's own choices are flipped at random for a share of the decisions, and the credit of the episode must be what it
  saved;
- decisions of it that have credit are undone one by one, all others kept by their place: their credit is compared with
  what that costs;
- the same compile is taken for one that serves all functions at once: what each function's decisions were given is
  compared with a compile in which those alone are flipped, everything else clang's own.

Equal is equal to the byte; of the same sign is also what is zero twice.
"""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mlgo_gym.corpus import open_corpus
from mlgo_gym.envs import InlineEnv
from mlgo_gym.episode.credit import credit, differing
from mlgo_gym.episode.placed_compile import PlacedCompile, compile_placed
from mlgo_gym.errors import MlgoError
from mlgo_gym.llvm.toolchain import find_toolchain
from mlgo_gym.session.decision import Decision

TIMEOUT = 600.0
"""How long clang may be silent, in seconds: other work may keep it from computing."""

Place = tuple[str, int, int]


class Tally:
    """How often two numbers were equal, or of the same sign."""

    def __init__(self) -> None:
        self.pairs: list[tuple[float, float]] = []

    def add(self, first: float, second: float) -> None:
        """Compare two numbers of bytes."""
        self.pairs.append((first, second))

    @property
    def equal(self) -> int:
        """How many were equal to the byte."""
        return sum(abs(first - second) < 0.5 for first, second in self.pairs)

    @property
    def same_sign(self) -> int:
        """How many were of the same sign."""
        return sum(np.sign(round(first)) == np.sign(round(second)) for first, second in self.pairs)

    def __str__(self) -> str:
        return f"{self.equal}/{self.same_sign}/{len(self.pairs)}"


class Judge:
    """Measures one module.

    Args:
        env: the environment, whose task and flags are meant.
        name: the module's name.
        generator: draws decisions and functions.
    """

    def __init__(self, env: InlineEnv, name: str, generator: random.Random) -> None:
        self._env = env
        self._own = env.task.default_action
        self._compilation = env.compilation(env.corpus.module(name))
        self._generator = generator
        self.reference = self._compile(lambda decision: int(self._own(decision)))

    def _compile(self, choose: Callable[[Decision], int]) -> PlacedCompile:
        return compile_placed(self._compilation, self._env.task, choose, TIMEOUT)

    def _by_place(self, answers: dict[Place, int]) -> PlacedCompile:
        """Compile with answers by place, clang's own where there is none."""

        def choose(decision: Decision) -> int:
            place = decision.context, decision.visit, decision.number
            return answers.get(place, int(self._own(decision)))

        return self._compile(choose)

    def episode(self, share: float) -> PlacedCompile:
        """Flip a share of clang's own choices."""
        return self._compile(lambda decision: int(self._own(decision)) ^ (self._generator.random() < share))

    def undone(self, episode: PlacedCompile, most: int) -> tuple[Tally, Tally, bool]:
        """Return how credit agrees with undoing decisions, all and those said to be exact, and whether it adds up."""
        found = credit(self.reference, episode)
        answers: dict[Place, int] = {decision[:3]: decision.answer for decision in episode.decisions}
        causes = differing(self.reference, episode)
        every, exact = Tally(), Tally()
        for number in self._generator.sample(causes, min(most, len(causes))):
            decision = episode.decisions[number]
            other = self._by_place({**answers, decision[:3]: 1 - decision.answer})
            for tally in (every, exact) if found.exact[number] else (every,):
                tally.add(float(found.bytes[number]), other.text - episode.text)
        return every, exact, bool(abs(found.bytes.sum() - (self.reference.text - episode.text)) < 1e-6)

    def alone(self, episode: PlacedCompile, most: int) -> Tally:
        """Return how functions of a shared compile agree with compiles of their own."""
        found = credit(self.reference, episode)
        by_function: dict[str, list[int]] = {}
        for number in differing(self.reference, episode):
            by_function.setdefault(episode.decisions[number].component, []).append(number)
        tally = Tally()
        for function in self._generator.sample(sorted(by_function), min(most, len(by_function))):
            numbers = by_function[function]
            answers = {each[:3]: each.answer for each in episode.decisions if each.component == function}
            other = self._by_place(answers)
            tally.add(float(found.bytes[numbers].sum()), self.reference.text - other.text)
        return tally


def measure(env: InlineEnv, name: str, seed: int, most: int, shares: Sequence[float]) -> dict[str, Any]:
    """Return the figures of one module."""
    judge = Judge(env, name, random.Random(f"{seed} {name}"))
    reference = judge.reference
    few, many = (judge.episode(share) for share in shares)
    tallies: dict[str, Tally] = {}
    tallies["undone of few"], tallies["exact of few"], sums = judge.undone(few, most)
    tallies["undone of many"], tallies["exact of many"], also = judge.undone(many, most)
    tallies["functions of few"] = judge.alone(few, most)
    tallies["functions of many"] = judge.alone(many, most)
    sizes = reference.functions
    return {
        "module": name,
        "decisions": len(reference.decisions),
        "functions": len(sizes.functions),
        "text": sizes.text,
        "unnamed": sizes.unnamed,
        "sum_is_text": sum(sizes.functions.values()) + sizes.unnamed == sizes.text,
        "credit_is_reduction": sums and also,
        "pairs": {name: tally.pairs for name, tally in tallies.items()},
        "table": {name: str(tally) for name, tally in tallies.items()},
    }


def main() -> None:
    """Measure, and print a row for each module."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--corpus", default="catalogue@Oz")
    parser.add_argument("--modules", type=int, default=10)
    parser.add_argument("--decisions", type=int, nargs=2, default=(20, 1500), metavar=("LEAST", "MOST"))
    parser.add_argument("--shares", type=float, nargs=2, default=(0.02, 0.1), metavar=("FEW", "MANY"))
    parser.add_argument("--each", type=int, default=8, help="how many decisions and functions are tried per episode")
    parser.add_argument("--bytes", type=int, default=400_000, help="the largest bitcode")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--clang")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    corpus = open_corpus(arguments.corpus, toolchain=find_toolchain(arguments.clang)).filter(bytes=(0, arguments.bytes))
    env = InlineEnv(corpus=corpus, clang=arguments.clang, timeout=TIMEOUT)
    least, most = arguments.decisions
    names = list(env.corpus.names)
    random.Random(arguments.seed).shuffle(names)
    rows: list[dict[str, Any]] = []
    header = ("module", "decisions", "functions", "sums", "undone, few", "undone, many", "functions, few", "many")
    print("| " + " | ".join(header) + " |\n|" + "---|" * len(header))
    for name in names:
        if len(rows) == arguments.modules:
            break
        try:
            if not least <= sum(env.decisions(env.corpus.module(name)).values()) <= most:
                continue
            row = measure(env, name, arguments.seed, arguments.each, arguments.shares)
        except MlgoError as error:
            print(f"{name}: {error}")
            continue
        rows.append(row)
        table = row["table"]
        sums = "both" if row["sum_is_text"] and row["credit_is_reduction"] else "NO"
        cells = (name, row["decisions"], row["functions"], sums, table["undone of few"], table["undone of many"])
        print(
            "| " + " | ".join(map(str, (*cells, table["functions of few"], table["functions of many"]))) + " |",
            flush=True,
        )
        if arguments.json is not None:
            figures = {"arguments": {key: str(value) for key, value in vars(arguments).items()}, "modules": rows}
            arguments.json.write_text(json.dumps(figures, indent=1) + "\n")
    for kind in rows[0]["pairs"] if rows else ():
        total = Tally()
        for row in rows:
            total.pairs += row["pairs"][kind]
        print(f"{kind}: equal {total.equal}, of the same sign {total.same_sign}, of {len(total.pairs)}")


if __name__ == "__main__":
    main()
