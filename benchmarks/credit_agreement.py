"""Whether credit is right: its books, and how often it agrees with compiles that change one thing alone.

    python benchmarks/credit_agreement.py --corpus catalogue@Oz --modules 10 --json credit_agreement.json
    python benchmarks/credit_agreement.py --corpus builtin@Os --names cpp/linalg c/json --episodes 2

For random modules of a corpus that have a number of decisions within bounds, or those that are named:

- the sizes of all functions are summed, and must be `.text`;
- clang's own choices are flipped at random for a share of the decisions, and the credit of the episode must be what it
  saved;
- decisions of it that have credit are undone one by one, all others kept by their place: their credit is compared with
  what that costs;
- the same compile is taken for one that serves all functions at once: what each function's decisions were given is
  compared with a compile in which those alone are flipped, everything else clang's own.

Equal is equal to the byte; of the same sign is also what is zero twice. At the end stand all modules together, and
beside credit the reduction of the whole module, which is what a learner has of a decision without credit: how often
each has the sign of what undoing a decision costs, where that is not 0, and its correlation with it.
"""

from __future__ import annotations

import argparse
import itertools
import json
import random
from collections.abc import Callable, Iterator, Sequence
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
    """How often an estimate is what was measured, or has its sign."""

    def __init__(self) -> None:
        self.rows: list[tuple[float, float, float]] = []

    def add(self, estimate: float, measured: float, reduction: float) -> None:
        """Compare two numbers of bytes; beside them stands what the whole episode saved."""
        self.rows.append((estimate, measured, reduction))

    @property
    def equal(self) -> int:
        """How many were equal to the byte."""
        return sum(abs(estimate - measured) < 0.5 for estimate, measured, _ in self.rows)

    @property
    def same_sign(self) -> int:
        """How many were of the same sign."""
        return sum(np.sign(round(estimate)) == np.sign(round(measured)) for estimate, measured, _ in self.rows)

    def against_the_module(self) -> str:
        """Return how credit and the module's reduction tell the sign of what was measured, and how they correlate."""
        values = np.array(self.rows, np.float64).reshape(-1, 3)
        moved = np.sign(values[values[:, 1] != 0])
        varied = len(values) > 2 and bool(values.std(axis=0).all())
        told = []
        for name, column in (("credit", 0), ("the module's reduction", 2)):
            sign = f"{np.mean(moved[:, column] == moved[:, 1]):.0%}" if len(moved) else "-"
            related = f"{np.corrcoef(values[:, column], values[:, 1])[0, 1]:.2f}" if varied else "-"
            told.append(f"{name} {sign}, {related}")
        return "sign and correlation: " + "; ".join(told)

    def __str__(self) -> str:
        return f"{self.equal}/{self.same_sign}/{len(self.rows)}"


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
        reduction = self.reference.text - episode.text
        every, exact = Tally(), Tally()
        for number in self._generator.sample(causes, min(most, len(causes))):
            decision = episode.decisions[number]
            other = self._by_place({**answers, decision[:3]: 1 - decision.answer})
            for tally in (every, exact) if found.exact[number] else (every,):
                tally.add(float(found.bytes[number]), other.text - episode.text, reduction)
        return every, exact, bool(abs(found.bytes.sum() - reduction) < 1e-6)

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
            saved = self.reference.text - other.text
            tally.add(float(found.bytes[numbers].sum()), saved, self.reference.text - episode.text)
        return tally


def measure(env: InlineEnv, name: str, seed: int, episodes: int, most: int, shares: Sequence[float]) -> dict[str, Any]:
    """Return the figures of one module."""
    judge = Judge(env, name, random.Random(f"{seed} {name}"))
    tallies = {f"{kind} of {much}": Tally() for kind in ("undone", "exact", "functions") for much in ("few", "many")}
    balanced = True
    for _ in range(episodes):
        for much, share in zip(("few", "many"), shares, strict=True):
            episode = judge.episode(share)
            every, exact, sums = judge.undone(episode, most)
            balanced &= sums and adds_up(episode)
            for kind, tally in (("undone", every), ("exact", exact), ("functions", judge.alone(episode, most))):
                tallies[f"{kind} of {much}"].rows += tally.rows
    sizes = judge.reference.functions
    return {
        "module": name,
        "decisions": len(judge.reference.decisions),
        "functions": len(sizes.functions),
        "text": sizes.text,
        "unnamed": sizes.unnamed,
        "books_balance": balanced and adds_up(judge.reference),
        "estimate_measured_reduction": {name: tally.rows for name, tally in tallies.items()},
        "equal_same_sign_tried": {name: str(tally) for name, tally in tallies.items()},
    }


def adds_up(compiled: PlacedCompile) -> bool:
    """Return whether the functions of an object, and what no symbol covers, add up to `.text`."""
    sizes = compiled.functions
    return sum(sizes.functions.values()) + sizes.unnamed == sizes.text


def chosen(env: InlineEnv, options: argparse.Namespace) -> Iterator[str]:
    """Yield the modules that are named, or all within bounds in a random order."""
    if options.names:
        yield from (name for name in env.corpus.names if any(name.endswith(ending) for ending in options.names))
        return
    names = list(env.corpus.names)
    random.Random(options.seed).shuffle(names)
    least, most = options.decisions
    yield from (name for name in names if least <= count(env, name) <= most)


def count(env: InlineEnv, name: str) -> int:
    """Return the decisions of a module; -1, and a line that says why, where it does not compile."""
    try:
        return sum(env.decisions(env.corpus.module(name)).values())
    except MlgoError as error:
        print(f"{name}: {error}")
        return -1


def main() -> None:
    """Measure, and print a row for each module."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--corpus", default="catalogue@Oz")
    parser.add_argument("--modules", type=int, default=10)
    parser.add_argument("--names", nargs="+", help="endings of modules' names, instead of random ones")
    parser.add_argument("--decisions", type=int, nargs=2, default=(20, 1500), metavar=("LEAST", "MOST"))
    parser.add_argument("--shares", type=float, nargs=2, default=(0.02, 0.1), metavar=("FEW", "MANY"))
    parser.add_argument("--episodes", type=int, default=1, help="how many of each share")
    parser.add_argument("--each", type=int, default=8, help="how many decisions and functions are tried per episode")
    parser.add_argument("--bytes", type=int, default=400_000, help="the largest bitcode of random modules")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--clang")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    corpus = open_corpus(arguments.corpus, toolchain=find_toolchain(arguments.clang))
    if not arguments.names:
        corpus = corpus.filter(bytes=(0, arguments.bytes))
    env = InlineEnv(corpus=corpus, clang=arguments.clang, timeout=TIMEOUT)
    rows: list[dict[str, Any]] = []
    shown = ("undone of few", "undone of many", "functions of few", "functions of many")
    header = ("module", "decisions", "functions", "sums", *shown)
    print("| " + " | ".join(header) + " |\n|" + "---|" * len(header))
    for name in itertools.islice(chosen(env, arguments), arguments.modules):
        row = measure(env, name, arguments.seed, arguments.episodes, arguments.each, arguments.shares)
        rows.append(row)
        sums = "both" if row["books_balance"] else "NO"
        counts = (row["equal_same_sign_tried"][kind] for kind in shown)
        print("| " + " | ".join(map(str, (name, row["decisions"], row["functions"], sums, *counts))) + " |", flush=True)
        if arguments.json is not None:
            figures = {"arguments": {key: str(value) for key, value in vars(arguments).items()}, "modules": rows}
            arguments.json.write_text(json.dumps(figures, indent=1) + "\n")
    for kind in rows[0]["equal_same_sign_tried"] if rows else ():
        total = Tally()
        for row in rows:
            total.rows += row["estimate_measured_reduction"][kind]
        print(f"{kind}: equal {total.equal}, of the same sign {total.same_sign}, of {len(total.rows)}", end="; ")
        print(total.against_the_module() if kind.startswith("undone") else "")
    env.close()
    if not all(row["books_balance"] for row in rows):
        raise SystemExit("functions do not add up to .text, or credit to the reduction")


if __name__ == "__main__":
    main()
