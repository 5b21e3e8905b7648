"""How far the credit of a decision is what undoing it costs, beside what the module's reward says of it.

    python benchmarks/credit_undone.py --corpus builtin@Os --modules cpp/linalg c/json --shares 0.02 0.1

In each episode a share of clang's own choices is made otherwise at random. Some of the decisions that differ are
undone alone, the rest repeated by place: the bytes of that are the truth. Beside the credit of each stands the
reduction of the whole module, which a learner has without credit. It ends with an error where functions do not add up
to `.text`, or credit to the reduction.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from mlgo_gym.envs import InlineEnv
from mlgo_gym.episode.credit import credit, differing
from mlgo_gym.episode.placed_compile import PlacedCompile, compile_placed
from mlgo_gym.session.decision import Decision

LONG = 900.0


class Undone(NamedTuple):
    """One decision: what undoing it adds to the module, its credit, the module's reduction, and whether it is exact."""

    truth: int
    credit: float
    reduction: int
    exact: bool


def undo(env: InlineEnv, name: str, share: float, episodes: int, each: int, chance: random.Random) -> list[Undone]:
    """Return what undoing some decisions of some episodes of a module comes to."""
    compilation = env.compilation(env.corpus.module(name))

    def compiled(choose: Callable[[Decision], int]) -> PlacedCompile:
        return compile_placed(compilation, env.task, choose, LONG)

    def default(decision: Decision) -> int:
        return int(env.task.default_action(decision))

    reference = compiled(default)
    rows: list[Undone] = []
    for _ in range(episodes):
        episode = compiled(lambda decision: default(decision) ^ (chance.random() < share))
        sizes = episode.functions
        assert sum(sizes.functions.values()) + sizes.unnamed == sizes.text, "the functions add up to the text"
        found = credit(reference, episode)
        assert abs(found.bytes.sum() - (reference.text - episode.text)) < 1e-6, "credit adds up to the reduction"
        numbers = differing(reference, episode)
        for number in chance.sample(numbers, min(each, len(numbers))):
            place = episode.decisions[number][:3]

            truth = compiled(without(episode, place, default)).text - episode.text
            reduction = reference.text - episode.text
            rows.append(Undone(truth, float(found.bytes[number]), reduction, bool(found.exact[number])))
    return rows


def without(
    episode: PlacedCompile, place: tuple[str, int, int], default: Callable[[Decision], int]
) -> Callable[[Decision], int]:
    """Return who repeats an episode by place, but for one decision."""

    def choose(decision: Decision) -> int:
        here = decision.context, decision.visit, decision.number
        known = episode.visits.get(here[:2], [])
        answer = known[decision.number].answer if decision.number < len(known) else default(decision)
        return 1 - answer if here == place else answer

    return choose


def show(title: str, rows: Sequence[Undone]) -> None:
    """Print one line of the table."""
    values = np.array([row[:3] for row in rows], np.float64)
    signs = np.sign(values)[values[:, 0] != 0]
    told = [f"{np.mean(signs[:, 0] == signs[:, column]):8.0%}" if len(signs) else f"{'':8}" for column in (1, 2)]
    varied = len(rows) > 2 and values.std(axis=0).all()
    related = [f"{np.corrcoef(values[:, 0], values[:, column])[0, 1]:8.2f}" if varied else " " * 8 for column in (1, 2)]
    exact = sum(row.exact for row in rows)
    equal = int(np.sum(np.abs(values[:, 0] - values[:, 1]) < 0.5))
    print(f"{title:34} {len(rows):6} {exact:6} {equal:6} {told[0]} {told[1]} {related[0]} {related[1]}", flush=True)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", default="builtin@Os")
    parser.add_argument("--modules", nargs="*", help="endings of names; ten drawn at random where there are none")
    parser.add_argument("--shares", nargs="+", type=float, default=[0.02, 0.1])
    parser.add_argument("--episodes", type=int, default=2)
    parser.add_argument("--each", type=int, default=4, help="decisions undone in each episode")
    options = parser.parse_args()
    env = InlineEnv(corpus=options.corpus, timeout=LONG)
    names = [name for name in env.corpus.names if any(name.endswith(ending) for ending in options.modules or ())]
    if not options.modules:
        names = [module.name for module in env.corpus.sample(10, seed=0)]
    titles = f"{'':34} {'undone':>6} {'exact':>6} {'equal':>6} {'sign of the truth':^17} {'correlation':^17}"
    print(f"{titles}\n{'':34} {'':6} {'':6} {'':6} {'credit':>8} {'module':>8} {'credit':>8} {'module':>8}")
    for share in options.shares:
        everything: list[Undone] = []
        for name in names:
            rows = undo(env, name, share, options.episodes, options.each, random.Random(0))
            everything += rows
            if rows:
                show(f"{share:.0%} {name}", rows)
        if everything:
            show(f"{share:.0%} of all", everything)
    env.close()


if __name__ == "__main__":
    main()
