"""Learning from the module's reward against learning from credit, with one small learner and equal numbers of compiles.

    python -m benchmarks.credit --json docs/results/credit.json --picture docs/images/credit.png

Prints the change of held-out modules over the compiles, for each seed. The learner is an actor-critic with one hidden
layer, trained by REINFORCE. It starts from clang's own choices and deviates in about one of ten decisions. With the
module's reward, every decision of an episode has the same return: the logarithm of the reduction, less a running mean
of that module. With credit, each decision has the bytes that it saved (`info["rewards"]`). Modules, their order, first
weights and steps are equal. Compiles for the credit's references count. Held-out modules are compiled with the likelier
answers; these compiles do not count. The same command does only the runs that the file lacks.
"""

from __future__ import annotations

import argparse
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

from benchmarks.measuring import command_line
from benchmarks.training_runs import Run, complete_runs
from mlgo_gym.corpus import Corpus, open_corpus
from mlgo_gym.integrations import fit_normalization
from mlgo_gym.policies.normalization import Normalization
from mlgo_gym.scheduling import SequentialRunner
from mlgo_gym.tasks.reward import worst_cost

ENVIRONMENT = "mlgo/Inline-v0"
SIGNALS = ("module", "credit")
PRIOR = 2.2
"""Initial logit of clang's own choice: the learner deviates in one of ten decisions."""

CLIP = 3.0
"""Limit of returns, in root mean squares: a few decisions change most of the bytes."""


class Learner(nn.Module):
    """An actor that prefers clang's own choice at first, and a critic.

    Args:
        features: length of an observation.
        seed: seed of the first weights.
    """

    def __init__(self, features: int, seed: int) -> None:
        super().__init__()
        torch.manual_seed(seed)
        last = nn.Linear(32, 2)
        nn.init.zeros_(last.weight)
        nn.init.zeros_(last.bias)
        self.layers = nn.Sequential(nn.Linear(features, 32), nn.Tanh(), last)

    def forward(self, observations: torch.Tensor, defaults: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the logits for inlining and the expected returns, each of shape (decisions,)."""
        outputs = self.layers(observations)
        return outputs[:, 0] + PRIOR * (2 * defaults - 1), outputs[:, 1]


class Episode(NamedTuple):
    """Observations, clang's choices and actions of an episode; and the last info."""

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
    """Run an episode.

    Args:
        env: the environment.
        learner: chooses the actions.
        normalization: applied to observations.
        module: name of the module.
        chance: samples the actions; None takes the likelier ones.
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
        probability = 1 / (1 + math.exp(-logit))
        actions.append(int(logit > 0) if chance is None else int(chance.random() < probability))
        observation, _, terminated, truncated, info = env.step(actions[-1])
        over = terminated or truncated
    return Episode(seen, defaults, actions, info)


def held_out_change(
    env: gym.Env[Any, Any], learner: Learner, normalization: Normalization, names: Sequence[str]
) -> float:
    """Return the geometric mean of the change against clang; a failed compile counts as the worst."""
    logarithms = []
    for name in names:
        info = play(env, learner, normalization, name, None).info
        logarithms.append(math.log(worst_cost(1.0) if info["error"] else info["text"] / info["baseline_text"]))
    return math.expm1(statistics.mean(logarithms))


def learn(
    options: argparse.Namespace, corpora: tuple[Corpus, Corpus], normalization: Normalization, run: Run
) -> dict[str, Any]:
    """Return the curve of one signal and seed."""
    signal, seed = run
    train, held_out = corpora
    env = gym.make(ENVIRONMENT, corpus=train, credit=signal == "credit")
    test = gym.make(ENVIRONMENT, corpus=held_out)
    chance = np.random.default_rng(seed)
    learner = Learner(len(normalization.names), seed)
    optimizer = torch.optim.Adam(learner.parameters(), options.step)
    means: dict[str, float] = {}
    compiled: set[str] = set()
    compiles, due = 0, 0
    curve: list[dict[str, float]] = []
    names: list[str] = []
    while True:
        if compiles >= due:
            change = held_out_change(test, learner, normalization, held_out.names)
            curve.append({"compiles": compiles, "change": change})
            print(f"{signal:7} seed {seed}  {compiles:5} compiles  {change:+7.2%}", flush=True)
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
            compiles += 1 if signal == "module" or name in compiled else 2
            compiled.add(name)
            if info["error"]:
                continue
            saved = math.log(info["baseline_text"] / info["text"])
            if signal == "credit":
                batch["return"].extend(info["rewards"])
            else:
                batch["return"].extend([saved - means.get(name, 0.0)] * len(episode.actions))
                means[name] = means.get(name, saved) + 0.3 * (saved - means.get(name, saved))
            batch["seen"].extend(episode.seen)
            batch["default"].extend(episode.defaults)
            batch["action"].extend(episode.actions)
        if not batch["return"]:
            continue
        returns = torch.tensor(np.array(batch["return"])).float()
        returns = (returns / (returns.square().mean().sqrt() + 1e-8)).clamp(-CLIP, CLIP)
        seen = torch.tensor(np.array(batch["seen"])).float()
        logits, expected = learner(seen, torch.tensor(batch["default"]).float())
        taken = torch.tensor(batch["action"]).float()
        likelihood = -nn.functional.binary_cross_entropy_with_logits(logits, taken, reduction="none")
        loss = -(likelihood * (returns - expected.detach())).mean() + 0.5 * (returns - expected).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    env.close()
    test.close()
    return {"curve": curve}


def draw(runs: Sequence[dict[str, Any]], path: Path) -> None:
    """Draw every seed, and the mean of each signal."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(7, 4))
    for signal, color, label in (("module", "tab:gray", "the module's reward"), ("credit", "tab:blue", "credit")):
        curves = [run["curve"] for run in runs if run["arm"] == signal]
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


def start(options: argparse.Namespace, capacity: int) -> SequentialRunner[Run, dict[str, Any]]:
    """Return the runner of a worker."""
    del capacity
    torch.set_num_threads(1)
    corpora = modules(options)
    env = gym.make(ENVIRONMENT, corpus=corpora[0])
    normalization = fit_normalization(env, observations=1_500, per_episode=100, seed=0)
    env.close()
    return SequentialRunner(partial(learn, options, corpora, normalization))


def modules(options: argparse.Namespace) -> tuple[Corpus, Corpus]:
    """Return the training modules and the held-out ones."""
    found = open_corpus(options.corpora).filter(bytes=tuple(options.bytes))
    return sample(found.split("train"), options.train), sample(found.split("test"), options.held_out)


def sample(corpus: Corpus, count: int) -> Corpus:
    """Return at most `count` modules with a decision, drawn with a fixed seed."""
    env: Any = gym.make(ENVIRONMENT, corpus=corpus).unwrapped
    drawn = corpus.sample(min(2 * count, len(corpus)), seed=0)
    names = [module.name for module in drawn if sum(env.decisions(module).values())]
    return corpus.filter(names=names[:count])


def main() -> None:
    """Train with both signals, print, write, draw."""
    parser = command_line(__doc__)
    parser.add_argument("--corpora", default="builtin@Os,zstd@Os,lz4@Os", help="any corpora of mlgo-gym")
    parser.add_argument("--train", type=int, default=16, help="modules of the training split (default: 16)")
    parser.add_argument("--held-out", type=int, default=8, help="modules of the test split (default: 8)")
    parser.add_argument("--bytes", type=int, nargs=2, default=(8_000, 30_000), help="bounds of a module's bitcode")
    parser.add_argument("--compiles", type=int, default=240, help="compiles per seed and signal (default: 240)")
    parser.add_argument("--batch", type=int, default=4, help="episodes per update (default: 4)")
    parser.add_argument("--step", type=float, default=0.02, help="learning rate of Adam (default: 0.02)")
    parser.add_argument("--points", type=int, default=5, help="evaluations after the first (default: 5)")
    parser.add_argument("--seeds", type=int, default=3, help="number of seeds (default: 3)")
    parser.add_argument("--jobs", type=int, default=2, help="number of processes (default: 2)")
    parser.add_argument("--json", type=Path, help="JSON file of the runs")
    parser.add_argument("--picture", type=Path, help="picture of the curves to draw")
    options = parser.parse_args()
    settings = {key: value for key, value in vars(options).items() if key not in ("json", "picture", "jobs", "seeds")}
    train, held_out = modules(options)
    settings |= {"train_modules": list(train.names), "held_out_modules": list(held_out.names)}
    runs = [(signal, seed) for seed in range(options.seeds) for signal in SIGNALS]
    found = complete_runs(options.json, settings, ("arm", "seed"), runs, partial(start, options), options.jobs)
    if options.picture:
        draw(found, options.picture)


if __name__ == "__main__":
    main()
