"""How PPO goes on from clang's own choices: the size of held-out modules over the training time, for several seeds.

    python benchmarks/learning_curve.py --minutes 4 --json docs/results/learning_curve.json --picture curve.png

stable-baselines3's PPO on one environment, from a network that has learned by imitation what clang does
(`mlgo_gym.training.imitate`, one round of 8 episodes, 5 % of doubt), as in `examples/sb3_ppo.py`: steps of 1e-4, no
bonus for entropy, rewards only at the end of an episode. Time is that of the processor, of this process and its
compilers, the evaluations not counted, so that what else a machine does matters little. The modules of the corpora are
split by their names; large ones are left out, so that there are many episodes. Runs that the JSON has already are not
made again.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import gymnasium as gym
import torch
from stable_baselines3 import PPO

import mlgo_gym
from mlgo_gym.adapters.sb3_start import start_sb3
from mlgo_gym.corpus import Corpus, open_corpus
from mlgo_gym.evaluation import evaluate
from mlgo_gym.llvm.toolchain import find_toolchain
from mlgo_gym.policies.network import Network
from mlgo_gym.policies.sb3 import save_sb3
from mlgo_gym.training import imitate
from mlgo_gym.wrappers import NormalizeFeatures

ENVIRONMENT = "mlgo/Inline-v0"
ROLLOUT = 1024
"""Decisions between two updates."""


def measure(model: PPO, network: Network, held_out: Corpus, folder: Path) -> dict[str, Any]:
    """Return how the held-out modules compare with plain clang's."""
    file = folder / "policy.zip"
    save_sb3(model, file, network.features, network.normalization)
    result = evaluate(ENVIRONMENT, policies={"policy": f"sb3:{file}"}, corpus=held_out)
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


def learn(corpora: str, level: str, seconds: float, points: int, largest: int, seed: int) -> dict[str, Any]:
    """Train at one level from one seed, and return the points of the curve."""
    spec = ",".join(f"{name}@{level}" for name in corpora.split(","))
    modules = open_corpus(spec, toolchain=find_toolchain()).filter(bytes=(0, largest))
    train, held_out = modules.split("train"), modules.split("test")
    inner = gym.make(ENVIRONMENT, corpus=train)
    started = spent()
    network = imitate(inner, rounds=1, episodes=8, leave_out=(), doubt=0.05, seed=seed)
    trained = spent() - started
    assert network.normalization is not None
    settings: dict[str, Any] = {"n_steps": ROLLOUT, "batch_size": 256, "n_epochs": 4, "gamma": 1.0, "ent_coef": 0.0}
    env = NormalizeFeatures(inner, network.normalization)
    model = start_sb3(PPO, env, network, learning_rate=1e-4, seed=seed, device="cpu", **settings)
    curve: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        while True:
            point = {"seconds": trained, "decisions": model.num_timesteps}
            curve.append(point | measure(model, network, held_out, Path(folder)))
            print(
                f"{level}  seed {seed}  {trained:5.0f} s  {model.num_timesteps:7d} decisions  "
                f"total {curve[-1]['total']:+8.2%}  geometric mean {curve[-1]['geometric_mean']:+8.2%}",
                flush=True,
            )
            if trained >= seconds:
                break
            until = min(seconds, trained + seconds / points)
            while trained < until:
                started = spent()
                model.learn(ROLLOUT, reset_num_timesteps=False)
                trained += spent() - started
    env.close()
    return {"level": level, "seed": seed, "train": len(train), "held_out": len(held_out), "curve": curve}


def draw(runs: Sequence[dict[str, Any]], path: Path) -> None:
    """Draw the curves, a colour for each level and a line for each seed."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(7, 4))
    colours = {"Oz": "tab:blue", "Os": "tab:orange"}
    named: set[str] = set()
    for run in runs:
        level = run["level"]
        minutes = [point["seconds"] / 60 for point in run["curve"]]
        change = [100 * point["geometric_mean"] for point in run["curve"]]
        label = None if level in named else f"-{level}, {run['curve'][0]['modules']} held-out modules"
        named.add(level)
        axes.plot(minutes, change, marker=".", color=colours.get(level), label=label)
    axes.axhline(0, color="gray", linewidth=1, label="clang's own heuristic")
    axes.set_xlabel("minutes of one core")
    axes.set_ylabel(".text against clang, geometric mean, %")
    axes.legend()
    figure.tight_layout()
    figure.savefig(path, dpi=120)


def main() -> None:
    """Train at each level from each seed, print the curves, and write them as JSON and as a picture."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpora", default="builtin,zstd,lz4")
    parser.add_argument("--levels", default="Oz,Os")
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--minutes", type=float, default=4, help="of one core, for each curve")
    parser.add_argument("--points", type=int, default=4, help="evaluations of a curve, beside that of the start")
    parser.add_argument("--largest", type=int, default=60_000, help="bytes of bitcode of a module")
    parser.add_argument("--json", type=Path, help="where to write the figures, and where finished runs are found")
    parser.add_argument("--picture", type=Path, help="where to draw the curves")
    options = parser.parse_args()
    torch.set_num_threads(1)  # such small networks are slower with more
    made = {name: getattr(options, name) for name in ("corpora", "minutes", "points", "largest")}
    result: dict[str, Any] = {"mlgo_gym": mlgo_gym.__version__, **made, "runs": []}
    if options.json and options.json.exists():
        there = json.loads(options.json.read_text())
        if all(there.get(name) == value for name, value in made.items()):
            result = there
    done = {(run["level"], run["seed"]) for run in result["runs"]}
    for seed in map(int, options.seeds.split(",")):
        for level in options.levels.split(","):
            if (level, seed) not in done:
                seconds = 60 * options.minutes
                result["runs"].append(learn(options.corpora, level, seconds, options.points, options.largest, seed))
            if options.json:
                options.json.write_text(json.dumps(result, indent=2) + "\n")
            if options.picture:
                draw(result["runs"], options.picture)


if __name__ == "__main__":
    main()
