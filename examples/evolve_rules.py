"""Evolves a readable rule of inlining from nothing: genetic programming on labels, verified by compiles.

A rule is a disjunction of conjunctions of comparisons, at most ten lines. Several populations breed on the bundled
labels, which takes seconds. Then the compiler judges the best new rule of each on training modules, in two processes. A
population without progress starts again. The state is in FOLDER after each round: the same command resumes.

pip install '.[tools]'   # in a clone of mlgo-gym
python evolve_rules.py FOLDER [LEVEL] [CPU_MINUTES] [SEED] [MODULES]
mlgo-gym evaluate mlgo/Inline-v0 --corpus builtin@Oz --split test --policy rule:FOLDER/best-0.rule
"""

from mlgo_gym.extras import require_libraries

require_libraries("tools", "pyarrow")

import json
import os
import sys
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from mlgo_gym import read_labels, score

POPULATIONS, RULES, GENERATIONS = 4, 100, 20
Comparison = tuple[str, str, float]
Rule = list[list[Comparison]]

SIGNS = {"<=": np.less_equal, ">=": np.greater_equal, "==": np.equal}


class Labels:
    """The bundled labels of a level, and the cost of a rule on them."""

    def __init__(self, level: str) -> None:
        folder = Path(str(files("mlgo_gym.training") / "bundled_labels"))
        labels = read_labels([folder / f"{level}-with-calls.parquet"])
        labels = labels.select(labels.bytes != 0)
        known = [name for name in labels.features if np.ptp(labels.select_features([name]).observations) > 0]
        self.columns = dict(zip(known, labels.select_features(known).observations.T, strict=True))
        # What inlining costs, weighted as in training: a byte counts less in a large module.
        self.value = np.sign(labels.bytes) * labels.weights
        self.oracle = float(np.minimum(self.value, 0).sum())
        self.gains: dict[str, float] = {}

    def comparison(self, random: np.random.Generator) -> Comparison:
        """Return a random comparison of a feature with one of its values."""
        name = str(random.choice(list(self.columns)))
        return name, str(random.choice(list(SIGNS))), float(random.choice(self.columns[name]))

    def gain(self, rule: Rule) -> float:
        """Return the share of the oracle's gain, minus a penalty for each comparison."""
        if (known := self.gains.get(text(rule))) is not None:
            return known
        holds = np.zeros(len(self.value), bool)
        for conjunction in rule:
            part = np.ones_like(holds)
            for name, sign, number in conjunction:
                part &= SIGNS[sign](self.columns[name], number)
            holds |= part
        gain = float(self.value[holds].sum()) / self.oracle - 0.002 * sum(map(len, rule))
        return self.gains.setdefault(text(rule), gain)


def text(rule: Rule) -> str:
    """Return a rule as the text of a rule file, one conjunction in a line."""
    lines = (" and ".join(f"{name} {sign} {number:g}" for name, sign, number in part) for part in rule)
    return "\nor ".join(f"({line})" for line in lines) + "\n"


def bred(first: Rule, second: Rule, labels: Labels, random: np.random.Generator) -> Rule:
    """Return a child of two rules."""
    child = [list(part) for part in first]
    kind = random.integers(6)
    part = child[random.integers(len(child))]
    place = random.integers(len(part))
    if kind == 0:  # a conjunction of the other rule
        child.append(list(second[random.integers(len(second))]))
    elif kind == 1 and len(child) > 1:
        child.remove(part)
    elif kind == 2:
        part.append(labels.comparison(random))
    elif kind == 3 and len(part) > 1:
        part.pop(place)
    elif kind == 4:  # another number
        name, sign, _ = part[place]
        part[place] = (name, sign, float(random.choice(labels.columns[name])))
    else:
        part[place] = labels.comparison(random)
    return [conjunction[:5] for conjunction in child[:10]]


def evolve(population: list[Rule], labels: Labels, random: np.random.Generator) -> list[Rule]:
    """Return the population after some generations, the best rule first."""
    for _ in range(GENERATIONS):
        # A tournament of four chooses the first parent: the population is sorted.
        pairs = [(min(random.choice(len(population), 4)), random.integers(len(population))) for _ in range(RULES)]
        children = [bred(population[first], population[second], labels, random) for first, second in pairs]
        distinct = {text(rule): rule for rule in [*population, *children]}
        population = sorted(distinct.values(), key=labels.gain, reverse=True)[:RULES]
    return population


def judge(rule: str, level: str, modules: int) -> float:
    """Return the change of code size on training modules, in a process of a pool."""
    return score(rule, level=level, compiles=modules, explain=False).value


def main(folder: Path, level: str = "Oz", minutes: float = 60.0, seed: int = 0, modules: int = 32) -> None:
    """Evolve rules until the CPU time is over, and print the best one; that many training modules judge a rule."""
    labels, path = Labels(level), folder / f"state-{seed}.json"
    state: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {"judged": {}, "curve": []}
    curve, judged = state["curve"], state["judged"]
    before = (curve[-1][0] if curve else 0.0) - sum(os.times()[:4])
    random = np.random.default_rng([seed, len(curve)])
    populations: list[list[Rule]] = state.get("populations") or [[] for _ in range(POPULATIONS)]
    folder.mkdir(parents=True, exist_ok=True)
    while not curve or curve[-1][0] < 60 * minutes:
        new: list[str] = []
        for number, population in enumerate(populations):
            start = population or [[[labels.comparison(random)]] for _ in range(RULES)]
            bred_rules = evolve(start, labels, random)
            new += [rule for rule in map(text, bred_rules) if rule not in judged and rule not in new][:1]
            improved = not population or labels.gain(bred_rules[0]) > labels.gain(population[0])
            populations[number] = bred_rules if improved else []
        with ProcessPoolExecutor(2) as pool:
            judged.update(zip(new, pool.map(partial(judge, level=level, modules=modules), new), strict=True))
        best = min(judged, key=judged.__getitem__)
        curve.append([round(before + sum(os.times()[:4])), len(judged), judged[best]])
        path.write_text(json.dumps({**state, "populations": populations}))
        (folder / f"best-{seed}.rule").write_text(best)
        print(f"{curve[-1][0]:6} CPU s  {len(judged):4} judged  best {judged[best]:+.3%}", flush=True)
    print(min(judged, key=judged.__getitem__))


if __name__ == "__main__":
    main(Path(sys.argv[1]), *(kind(word) for kind, word in zip((str, float, int, int), sys.argv[2:], strict=False)))
