"""How PPO goes on from clang's own choices: the size of held-out modules over the decisions, for several seeds.

    python benchmarks/learning_curve.py --jobs 2 --json docs/results/learning_from_clang.json \
        --picture docs/images/learning_from_clang.png

stable-baselines3's PPO on one environment, from a network that has learned by imitation what clang does
(`mlgo_gym.training.imitate`, one round of 8 episodes, 5 % of doubt), as in `examples/sb3_ppo.py`: small steps, no bonus
for entropy, rewards only at the end of an episode. The budget is one of decisions, so that curves depend on the seed
and not on the machine; the processor's seconds of training, of this process and its compilers, are told beside it. The
modules of the corpora are split by their names: the last checkpoint is measured on those held out, and so is the one
that is best on the validation split, which is what the examples keep. Large modules are left out, so that there are
many episodes. Runs that the JSON has already are not made again.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium as gym
import torch
from stable_baselines3 import PPO

import mlgo_gym
from mlgo_gym.adapters.sb3_start import start_sb3
from mlgo_gym.corpus import Corpus, open_corpus
from mlgo_gym.errors import MlgoError
from mlgo_gym.evaluation import evaluate
from mlgo_gym.llvm.toolchain import find_toolchain
from mlgo_gym.policies.sb3 import save_sb3
from mlgo_gym.scheduling import Backlog, EachAlone, Lost, workers
from mlgo_gym.training import BestCheckpoint, imitate
from mlgo_gym.wrappers import NormalizeFeatures

ENVIRONMENT = "mlgo/Inline-v0"
ROLLOUT = 1024
"""Decisions between two updates."""

Run = tuple[str, int]
"""A level and a seed."""


def measure(policy: str, held_out: Corpus) -> dict[str, Any]:
    """Return how the held-out modules compare with plain clang's."""
    result = evaluate(ENVIRONMENT, policies={"policy": policy}, corpus=held_out)
    change = result.summaries()[0].changes[result.measures[0]]  # the counts behind the number
    return {
        "total": change.total,
        "geometric_mean": result.change("policy"),
        "better": change.better,
        "worse": change.worse,
        "modules": len(change.pairs),
        "failures": len(result.failures),
    }


def spent() -> float:
    """Return the processor's seconds of this process and of those compilers that it has ended."""
    return sum(os.times()[:4])


def learn(options: argparse.Namespace, run: Run) -> dict[str, Any]:
    """Train at one level from one seed, and return the points of the curve."""
    level, seed = run
    spec = ",".join(f"{name}@{level}" for name in options.corpora.split(","))
    modules = open_corpus(spec, toolchain=find_toolchain()).filter(bytes=(0, options.largest))
    train, valid, held_out = (modules.split(part) for part in ("fit", "valid", "test"))
    inner = gym.make(ENVIRONMENT, corpus=train)
    started = spent()
    network = imitate(inner, rounds=1, episodes=8, leave_out=(), doubt=0.05, seed=seed)
    trained = spent() - started
    assert network.normalization is not None
    settings: dict[str, Any] = {"n_steps": ROLLOUT, "batch_size": 256, "n_epochs": 4, "gamma": 1.0, "ent_coef": 0.0}
    env = NormalizeFeatures(inner, network.normalization)
    model = start_sb3(PPO, env, network, learning_rate=options.step, seed=seed, device="cpu", **settings)
    curve: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        last = Path(folder, "last.zip")
        best = BestCheckpoint(ENVIRONMENT, valid, Path(folder, "best.zip"))
        while True:
            save_sb3(model, last, network.features, network.normalization)
            before = best.change
            valid_change = best.offer(f"sb3:{last}")
            found = measure(f"sb3:{last}", held_out)
            # What is kept was measured when it came.
            kept = found if best.change != before or not curve else curve[-1]["kept"]
            point = {"decisions": model.num_timesteps, "seconds": trained, "valid": valid_change}
            curve.append({**point, **found, "kept": kept})
            print(
                f"{level}  seed {seed}  {model.num_timesteps:7d} decisions  {trained:5.0f} s  "
                f"held out {found['geometric_mean']:+8.2%}  validation {valid_change:+8.2%}  "
                f"kept, held out {kept['geometric_mean']:+8.2%}",
                flush=True,
            )
            if model.num_timesteps >= options.decisions:
                break
            started = spent()
            model.learn(options.decisions // options.points, reset_num_timesteps=False)
            trained += spent() - started
    env.close()
    sizes = {"train": len(train), "valid": len(valid), "held_out": len(held_out)}
    return {"level": level, "seed": seed, **sizes, "curve": curve}


def draw(runs: Sequence[dict[str, Any]], path: Path) -> None:
    """Draw the curves: a colour for each level; thin lines for the last checkpoints, thick ones for what is kept."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(7, 4))
    colours = {"Oz": "tab:blue", "Os": "tab:orange"}
    named: set[str] = set()
    for run in runs:
        level = run["level"]
        decisions = [point["decisions"] / 1000 for point in run["curve"]]
        label = None if level in named else f"-{level}, {run['curve'][0]['modules']} held-out modules"
        named.add(level)
        last = [100 * point["geometric_mean"] for point in run["curve"]]
        kept = [100 * point["kept"]["geometric_mean"] for point in run["curve"]]
        axes.plot(decisions, last, linewidth=0.8, alpha=0.6, color=colours.get(level))
        axes.plot(decisions, kept, linewidth=2, marker=".", color=colours.get(level), label=label)
    axes.axhline(0, color="gray", linewidth=1, label="clang's own heuristic")
    axes.set_xlabel("thousand decisions (thin: the last checkpoint; thick: the best on validation modules)")
    axes.set_ylabel(".text against clang, geometric mean, %")
    axes.legend()
    figure.tight_layout()
    figure.savefig(path, dpi=120)


def runner(options: argparse.Namespace, room: int) -> EachAlone[Run, dict[str, Any]]:
    """Return what trains one run after the other."""
    del room
    torch.set_num_threads(1)  # such small networks are slower with more
    return EachAlone(partial(learn, options))


def main() -> None:
    """Train at each level from each seed, print the curves, and write them as JSON and as a picture."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpora", default="builtin,zstd,lz4,brotli,box2d-py")
    parser.add_argument("--levels", default="Oz,Os")
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--decisions", type=int, default=80_000, help="of each curve")
    parser.add_argument("--points", type=int, default=5, help="evaluations of a curve, beside that of the start")
    parser.add_argument("--step", type=float, default=3e-4, help="the size of a step of the optimiser")
    parser.add_argument("--largest", type=int, default=60_000, help="bytes of bitcode of a module")
    parser.add_argument("--jobs", type=int, default=1, help="how many curves at once")
    parser.add_argument("--json", type=Path, help="where to write the figures, and where finished runs are found")
    parser.add_argument("--picture", type=Path, help="where to draw the curves")
    options = parser.parse_args()
    made = {name: getattr(options, name) for name in ("corpora", "decisions", "points", "step", "largest")}
    result: dict[str, Any] = {"mlgo_gym": mlgo_gym.__version__, **made, "runs": []}
    if options.json and options.json.exists():
        there = json.loads(options.json.read_text())
        if all(there.get(name) == value for name, value in made.items()):
            result = there
    done = {(run["level"], run["seed"]) for run in result["runs"]}
    waiting = [(level, seed) for seed in map(int, options.seeds.split(",")) for level in options.levels.split(",")]
    with workers(partial(runner, options), options.jobs) as running:
        for run, found in running.run(Backlog([run for run in waiting if run not in done])):
            if isinstance(found, Lost):
                raise MlgoError(f"the process that learned at -{run[0]} from seed {run[1]} died: {found.how}")
            result["runs"] = sorted([*result["runs"], found], key=lambda each: (each["level"], each["seed"]))
            if options.json:
                options.json.write_text(json.dumps(result, indent=2) + "\n")
    if options.picture and result["runs"]:
        draw(result["runs"], options.picture)


if __name__ == "__main__":
    main()
