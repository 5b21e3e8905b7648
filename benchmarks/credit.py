"""The same small learner with the module's reward and with credit, for the same number of compiles.

    python benchmarks/credit.py --json docs/results/credit.json --picture docs/images/credit.png

An actor and a critic, outputs of a network with one hidden layer, trained by REINFORCE with the critic as the
baseline. The learner begins with clang's own choices, from which it deviates by chance in about one of ten decisions,
and learns where to. With the module's reward every decision of an episode has the same return: the logarithm of how
much smaller the module became, less a running mean of that module. With credit each decision has the bytes that it
saved itself (`CreditRewards`), and nothing else. All else is equal: the modules, their order, the first weights, the
steps and their size. Compiles for the credit's references count as compiles. Held-out modules are compiled by the
likelier answer of each decision; these compiles do not count. Runs that the file already has are not made again.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
from collections import defaultdict
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np
import torch
from torch import nn

import mlgo_gym  # noqa: F401 - registers the environments
from mlgo_gym.corpus import Corpus, open_corpus
from mlgo_gym.errors import MlgoError
from mlgo_gym.llvm.toolchain import find_toolchain
from mlgo_gym.policies.normalization import Normalization
from mlgo_gym.scheduling import Backlog, EachAlone, Lost, workers
from mlgo_gym.wrappers import CreditRewards, fit_normalization

ENVIRONMENT = "mlgo/Inline-v0"
ARMS = ("module", "credit")
PRIOR = 2.2
"""The first logit for clang's own choice: it is left in one of ten decisions."""

CLIP = 3.0
"""Returns beyond so many of their root mean squares are cut: a few decisions move most of the bytes."""


GROWTH = ("-mllvm", "-ml-advisor-size-increase-threshold=")
"""By which factor the instructions of a module may grow before clang stops asking, and inlines nothing more."""


class Learner(nn.Module):
    """Prefers clang's own choice, and learns by how much; and what a decision brings.

    With `by_choice`, what it learns of calls that clang inlines and of those that it keeps are outputs of their own.
    With one for both, what is learnt first, that calls which clang keeps for their size are better kept, keeps cheap
    calls as well.

    Args:
        features: the length of an observation.
        seed: the first weights.
        by_choice: whether calls that clang inlines and those that it keeps have outputs of their own.
    """

    def __init__(self, features: int, seed: int, *, by_choice: bool) -> None:
        super().__init__()
        self.by_choice = by_choice
        torch.manual_seed(seed)
        last = nn.Linear(32, 3 if by_choice else 2)
        nn.init.zeros_(last.weight)
        nn.init.zeros_(last.bias)
        self.layers = nn.Sequential(nn.Linear(features, 32), nn.Tanh(), last)

    def forward(self, observations: torch.Tensor, defaults: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the logits for inlining and the expected returns, each of shape (decisions,)."""
        outputs = self.layers(observations)
        own = torch.where(defaults > 0, outputs[:, 0], outputs[:, 2]) if self.by_choice else outputs[:, 0]
        return own + PRIOR * (2 * defaults - 1), outputs[:, 1]


class Episode(NamedTuple):
    """What was seen, what clang would have chosen and what was done at each decision; and the last info."""

    seen: list[Any]
    defaults: list[float]
    actions: list[int]
    info: dict[str, Any]


def play(
    env: gym.Env[Any, Any],
    learner: Learner,
    normalization: Normalization,
    module: str,
    chance: np.random.Generator | None,
) -> Episode:
    """Play an episode.

    Args:
        env: the environment.
        learner: who decides.
        normalization: what it sees of an observation.
        module: the module.
        chance: draws the actions; None takes the likelier ones.
    """
    seen: list[Any] = []
    defaults: list[float] = []
    actions: list[int] = []
    observation, info = env.reset(options={"module": module})
    over = False
    while not over:
        seen.append(normalization(np.asarray(observation, np.float32)[None])[0])
        defaults.append(float(info["default_action"]))
        with torch.no_grad():
            logit = float(learner(torch.tensor(seen[-1][None]).float(), torch.tensor(defaults[-1:]))[0])
        likely = 1 / (1 + math.exp(-logit))
        actions.append(int(logit > 0) if chance is None else int(chance.random() < likely))
        observation, _, terminated, truncated, info = env.step(actions[-1])
        over = terminated or truncated
    return Episode(seen, defaults, actions, info)


def held_out_change(
    env: gym.Env[Any, Any], learner: Learner, normalization: Normalization, names: Sequence[str]
) -> float:
    """Return the geometric mean of the change against clang, over all modules; a failed compile counts as none."""
    logarithms = []
    for name in names:
        *_, info = play(env, learner, normalization, name, None)
        change = 0.0 if "error" in info else math.log(info["text_size"] / info["baseline_text_size"])
        logarithms.append(change)
    return math.expm1(statistics.mean(logarithms))


def learn(
    options: argparse.Namespace, corpora: tuple[Corpus, Corpus], normalization: Normalization, arm: str, seed: int
) -> list[dict[str, float]]:
    """Return the points of one curve."""
    train, held_out = corpora
    flags = growing(options)
    env = gym.make(ENVIRONMENT, corpus=train, credit=arm == "credit", extra_flags=flags)
    if arm == "credit":
        env = CreditRewards(env)
    test = gym.make(ENVIRONMENT, corpus=held_out, extra_flags=flags)
    chance = np.random.default_rng(seed)
    learner = Learner(len(normalization.names), seed, by_choice=options.by_choice)
    optimizer = torch.optim.Adam(learner.parameters(), options.step)
    means: dict[str, float] = {}
    met: set[str] = set()
    compiles, due = 0, 0
    curve: list[dict[str, float]] = []
    names: list[str] = []
    while True:
        if compiles >= due:
            curve.append(
                {"compiles": compiles, "change": held_out_change(test, learner, normalization, held_out.names)}
            )
            print(f"{arm:7} seed {seed}  {compiles:5} compiles  {curve[-1]['change']:+7.2%}", flush=True)
            due += options.compiles // options.points
        if compiles >= options.compiles:
            break
        batch: dict[str, list[Any]] = defaultdict(list)
        for _ in range(options.batch):
            if not names:
                names = [str(name) for name in chance.permutation(train.names)]
            name = names.pop()
            episode = play(env, learner, normalization, name, chance)
            info = episode.info
            compiles += 1 if arm == "module" or name in met else 2
            met.add(name)
            if "error" in info:
                continue
            saved = math.log(info["baseline_text_size"] / info["text_size"])
            if arm == "credit":
                batch["return"].extend(info["rewards"])
            else:
                batch["return"].extend([saved - means.get(name, 0.0)] * len(episode.actions))
                means[name] = means.get(name, saved) + 0.3 * (saved - means.get(name, saved))
            batch["seen"].extend(episode.seen)
            batch["default"].extend(episode.defaults)
            batch["action"].extend(episode.actions)
        if not batch["return"]:
            continue
        defaults = torch.tensor(batch["default"]).float()
        returns = scaled(torch.tensor(np.array(batch["return"])).float(), defaults, by_choice=options.by_choice)
        seen = torch.tensor(np.array(batch["seen"])).float()
        logits, expected = learner(seen, defaults)
        taken = torch.tensor(batch["action"]).float()
        likelihood = -nn.functional.binary_cross_entropy_with_logits(logits, taken, reduction="none")
        loss = -(likelihood * (returns - expected.detach())).mean() + 0.5 * (returns - expected).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    env.close()
    test.close()
    return curve


def scaled(returns: torch.Tensor, defaults: torch.Tensor, *, by_choice: bool) -> torch.Tensor:
    """Return returns in their root mean squares, cut off; those of both choices of clang's in their own, if wanted."""
    for choice in (defaults > 0, defaults <= 0) if by_choice else (torch.ones_like(defaults) > 0,):
        within = returns[choice]
        if len(within):
            returns[choice] = (within / (within.square().mean().sqrt() + 1e-8)).clamp(-CLIP, CLIP)
    return returns


def draw(runs: Sequence[dict[str, Any]], path: Path) -> None:
    """Draw every seed, and the mean of each arm."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(7, 4))
    for arm, color, label in (("module", "tab:gray", "the module's reward"), ("credit", "tab:blue", "credit")):
        curves = [run["curve"] for run in runs if run["arm"] == arm]
        for curve in curves:
            axes.plot([p["compiles"] for p in curve], [100 * p["change"] for p in curve], color=color, alpha=0.4, lw=1)
        if curves:
            rows = list(zip(*curves, strict=False))
            compiles = [statistics.mean(point["compiles"] for point in row) for row in rows]
            change = [100 * statistics.mean(point["change"] for point in row) for row in rows]
            axes.plot(compiles, change, color=color, lw=2.5, marker="o", label=f"{label}, mean of {len(curves)} seeds")
    axes.axhline(0, color="black", linewidth=0.8)
    axes.set_xlabel("compiles for training")
    axes.set_ylabel(".text of held-out modules against clang, %")
    axes.set_ylim(top=max(axes.get_ylim()[1], 0.5))
    axes.legend()
    figure.tight_layout()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)


def main() -> None:
    """Train with both rewards, print the curves, and write them as JSON and as a picture where that is asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpora", default="builtin@Os,zstd@Os,lz4@Os")
    parser.add_argument("--train", type=int, default=16, help="modules, drawn from the training split")
    parser.add_argument("--held-out", type=int, default=8, help="modules, drawn from the test split")
    parser.add_argument("--bytes", type=int, nargs=2, default=(8_000, 30_000), help="of bitcode of a module")
    parser.add_argument("--compiles", type=int, default=240, help="for each seed and reward")
    parser.add_argument("--batch", type=int, default=4, help="episodes between two steps")
    parser.add_argument("--step", type=float, default=0.02, help="the size of Adam's steps")
    parser.add_argument(
        "--by-choice",
        action="store_true",
        help="calls that clang inlines and those that it keeps have outputs, and a scale of returns, of their own",
    )
    parser.add_argument("--growth", type=float, help="the factor by which a module may grow; clang's own is 2")
    parser.add_argument("--points", type=int, default=5, help="evaluations of a curve, beside that of the start")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=2, help="how many processes")
    parser.add_argument("--json", type=Path, help="where to write the figures")
    parser.add_argument("--picture", type=Path, help="where to draw the curves")
    options = parser.parse_args()
    settings = {key: value for key, value in vars(options).items() if key not in ("json", "picture", "jobs")}
    train, held_out = modules(options)
    facts = {"train_modules": list(train.names), "held_out_modules": list(held_out.names)}
    runs = earlier(options.json, {**settings, **facts})
    done = {(run["arm"], run["seed"]) for run in runs}
    items = Backlog([(arm, seed) for seed in range(options.seeds) for arm in ARMS if (arm, seed) not in done])
    with workers(partial(start, options), options.jobs) as running:
        for (arm, seed), curve in running.run(items):
            if isinstance(curve, Lost):
                raise MlgoError(f"the process that learned with {arm} and seed {seed} died: {curve.how}")
            runs.append({"arm": arm, "seed": seed, "curve": curve})
            if options.json:
                options.json.parent.mkdir(parents=True, exist_ok=True)
                options.json.write_text(json.dumps({**settings, **facts, "runs": runs}, indent=1) + "\n")
    if options.picture:
        draw(runs, options.picture)


def earlier(path: Path | None, facts: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the runs that a file has from before, with the same settings but for the number of seeds.

    Raises:
        MlgoError: it has runs with other settings.
    """
    if path is None or not path.exists():
        return []
    known: dict[str, Any] = json.loads(path.read_text())
    runs: list[dict[str, Any]] = known.pop("runs")
    wanted = json.loads(json.dumps(facts))
    differing = sorted(key for key in known.keys() | wanted.keys() if known.get(key) != wanted.get(key))
    if differing not in ([], ["seeds"]):
        raise MlgoError(f"{path} has runs with other {', '.join(differing)}: choose another file")
    return runs


def start(options: argparse.Namespace, room: int) -> EachAlone[tuple[str, int], list[dict[str, float]]]:
    """Return what learns with one reward and seed after the other."""
    del room
    torch.set_num_threads(1)
    corpora = modules(options)
    env = gym.make(ENVIRONMENT, corpus=corpora[0], extra_flags=growing(options))
    normalization = fit_normalization(env, observations=1_500, per_episode=100, seed=0)
    env.close()
    return EachAlone(lambda item: learn(options, corpora, normalization, *item))


def growing(options: argparse.Namespace) -> tuple[str, ...]:
    """Return the flags by which a module may grow as far as is wanted."""
    return () if options.growth is None else (GROWTH[0], f"{GROWTH[1]}{options.growth}")


def modules(options: argparse.Namespace) -> tuple[Corpus, Corpus]:
    """Return the modules for training and those held out."""
    found = open_corpus(options.corpora, toolchain=find_toolchain()).filter(bytes=tuple(options.bytes))
    return deciding(found.split("train"), options.train), deciding(found.split("test"), options.held_out)


def deciding(corpus: Corpus, count: int) -> Corpus:
    """Return so many modules that have a decision, drawn with a fixed seed."""
    env = gym.make(ENVIRONMENT, corpus=corpus)
    names: list[str] = []
    inner: Any = env.unwrapped
    for module in corpus.sample(min(2 * count, len(corpus)), seed=0):
        if len(names) < count and sum(inner.decisions(module).values()):
            names.append(module.name)
    env.close()
    return corpus.filter(names=names)


if __name__ == "__main__":
    main()
