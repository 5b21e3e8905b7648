"""Evolves a readable rule of inlining from nothing: genetic programming on labels, verified by compiles.

A rule is a disjunction of conjunctions of comparisons, at most ten lines. Each generation breeds rules on the bundled
labels, which takes milliseconds. After every 20 generations the compiler judges the best new rules on training modules;
the best of all judgements is the result. The state is in FOLDER after each judgement: the same command resumes.

pip install '.[tools]'   # in a clone of mlgo-gym
python evolve_rules.py FOLDER [LEVEL] [MINUTES] [SEED]
mlgo-gym evaluate mlgo/Inline-v0 --corpus builtin@Oz --split test --policy rule:FOLDER/best-0.rule
"""

from mlgo_gym.extras import require_libraries

require_libraries("tools", "pyarrow")

import json
import sys
import time
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from mlgo_gym import read_labels, score

POPULATION, GENERATIONS, JUDGED = 150, 20, 4
MODULES = 32
"""Modules on which the compiler judges a rule."""

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
        pairs = [(min(random.choice(len(population), 4)), random.integers(len(population))) for _ in range(POPULATION)]
        children = [bred(population[first], population[second], labels, random) for first, second in pairs]
        distinct = {text(rule): rule for rule in [*population, *children]}
        population = sorted(distinct.values(), key=labels.gain, reverse=True)[:POPULATION]
    return population


def main(folder: Path, level: str = "Oz", minutes: float = 30.0, seed: int = 0) -> None:
    """Evolve rules until the time is over, and print the best one."""
    labels, path = Labels(level), folder / f"state-{seed}.json"
    state: dict[str, Any] = (
        json.loads(path.read_text()) if path.exists() else {"seconds": 0.0, "judged": {}, "curve": []}
    )
    random = np.random.default_rng([seed, len(state["curve"])])
    population: list[Rule] = state.get("population") or [[[labels.comparison(random)]] for _ in range(POPULATION)]
    folder.mkdir(parents=True, exist_ok=True)
    while state["seconds"] < 60 * minutes:
        started = time.monotonic()
        population = evolve(population, labels, random)
        new = [rule for rule in population if text(rule) not in state["judged"]][:JUDGED]
        for rule in new:
            state["judged"][text(rule)] = score(text(rule), level=level, compiles=MODULES, explain=False).value
        if not new:  # converged: start again from random rules beside the best
            population = population[:20] + [[[labels.comparison(random)]] for _ in range(POPULATION)]
        best = min(state["judged"], key=state["judged"].__getitem__)
        state["seconds"] += time.monotonic() - started
        state["curve"].append([round(state["seconds"]), state["judged"][best]])
        path.write_text(json.dumps({**state, "population": population}))
        (folder / f"best-{seed}.rule").write_text(best)
        print(
            f"{state['seconds']:6.0f} s  {len(state['judged']):4d} judged  best {state['judged'][best]:+.3%}",
            flush=True,
        )
    print(best)


if __name__ == "__main__":
    main(Path(sys.argv[1]), *(kind(word) for kind, word in zip((str, float, int), sys.argv[2:], strict=False)))
