"""How PPO learns to inline: the size of held-out modules over the training time, at -Oz and at -Os.

    python benchmarks/learning_curve.py --minutes 15 --json curve.json --picture curve.png

stable-baselines3's PPO with a network of two hidden layers of 64, features normalized by `log_standard`, one
environment, rewards only at the end of an episode. Each level has its half of the time, the evaluations not counted.
The modules of the corpora are split by their names; large ones are left out, so that there are many episodes.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import gymnasium as gym
from stable_baselines3 import PPO

import mlgo_gym
from mlgo_gym.corpus import Corpus, open_corpus
from mlgo_gym.evaluation import evaluate
from mlgo_gym.llvm.toolchain import find_toolchain
from mlgo_gym.policies.sb3 import save_sb3
from mlgo_gym.wrappers import NormalizeFeatures, fit_normalization

ENVIRONMENT = "mlgo/Inline-v0"
ROLLOUT = 512
"""Decisions between two updates."""


def measure(model: PPO, env: NormalizeFeatures, held_out: Corpus, folder: Path) -> dict[str, Any]:
    """Return how the held-out modules compare with plain clang's."""
    file = folder / "policy.zip"
    save_sb3(model, file, env.feature_names, env.normalization)
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


def learn(corpora: Sequence[str], level: str, seconds: float, points: int, largest: int, seed: int) -> dict[str, Any]:
    """Train at one level, and return the points of its curve."""
    spec = ",".join(f"{name}@{level}" for name in corpora)
    modules = open_corpus(spec, toolchain=find_toolchain()).filter(bytes=(0, largest))
    train, held_out = modules.split("train"), modules.split("test")
    inner = gym.make(ENVIRONMENT, corpus=train)
    env = NormalizeFeatures(inner, fit_normalization(inner, observations=3_000, per_episode=300, seed=seed))
    model = PPO("MlpPolicy", env, n_steps=ROLLOUT, batch_size=128, gamma=1.0, ent_coef=0.01, seed=seed, device="cpu")
    curve: list[dict[str, Any]] = []
    trained = 0.0
    with tempfile.TemporaryDirectory() as folder:
        while True:
            point = {"seconds": trained, "decisions": model.num_timesteps}
            curve.append(point | measure(model, env, held_out, Path(folder)))
            print(
                f"{level}  {trained:6.0f} s  {model.num_timesteps:7d} decisions  total {curve[-1]['total']:+8.2%}  "
                f"geometric mean {curve[-1]['geometric_mean']:+8.2%}",
                flush=True,
            )
            if trained >= seconds:
                break
            until = min(seconds, trained + seconds / points)
            while trained < until:
                started = time.perf_counter()
                model.learn(ROLLOUT, reset_num_timesteps=False)
                trained += time.perf_counter() - started
    env.close()
    return {"level": level, "train": len(train), "held_out": len(held_out), "curve": curve}


def draw(runs: Sequence[dict[str, Any]], path: Path) -> None:
    """Draw the curves."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(7, 4))
    for run in runs:
        seconds = [point["seconds"] / 60 for point in run["curve"]]
        change = [100 * point["geometric_mean"] for point in run["curve"]]
        axes.plot(seconds, change, marker="o", label=f"-{run['level']}, {run['held_out']} held-out modules")
    axes.axhline(0, color="gray", linewidth=1, label="clang's own heuristic")
    axes.set_yscale("symlog", linthresh=10)
    axes.set_xlabel("minutes of training")
    axes.set_ylabel(".text against clang, geometric mean, %")
    axes.legend()
    figure.tight_layout()
    figure.savefig(path, dpi=120)


def main() -> None:
    """Train at both levels, print the curves, and write them as JSON and as a picture where that is asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpora", default="builtin,zstd,lz4")
    parser.add_argument("--levels", default="Oz,Os")
    parser.add_argument("--minutes", type=float, default=15, help="of training, for all levels together")
    parser.add_argument("--points", type=int, default=6, help="evaluations of a curve, beside that of the start")
    parser.add_argument("--largest", type=int, default=60_000, help="bytes of bitcode of a module")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path, help="where to write the figures")
    parser.add_argument("--picture", type=Path, help="where to draw the curves")
    options = parser.parse_args()
    levels = options.levels.split(",")
    seconds = 60 * options.minutes / len(levels)
    runs = []
    for level in levels:
        corpora = options.corpora.split(",")
        runs.append(learn(corpora, level, seconds, options.points, options.largest, options.seed))
        result = {"mlgo_gym": mlgo_gym.__version__, "corpora": options.corpora, "seed": options.seed, "runs": runs}
        if options.json:
            options.json.write_text(json.dumps(result, indent=2) + "\n")
        if options.picture:
            draw(runs, options.picture)


if __name__ == "__main__":
    main()
