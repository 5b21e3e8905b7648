"""Compares the decisions per second of stable-baselines3 in lock step and with the environments that are ready first.

    python -m benchmarks.learner_throughput [--rounds 4]

Both agents learn from credit, in turns of 1,024 decisions, so that both meet the same load of the machine. The first
turn of each is not counted. The results are in docs/results/learner_throughput.json.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import gymnasium as gym
import torch
from stable_baselines3 import PPO

from benchmarks.measuring import RESULTS, Table, command_line, cpu_seconds, write_json
from mlgo_gym import open_corpus
from mlgo_gym.integrations import Normalization, fit_normalization, vector
from mlgo_gym.integrations.sb3 import CreditAdvantages, VecEnvAdapter

CORPUS = "builtin@Os,lz4@Os,brotli@Os,box2d-py@Os"
KINDS = {"lock step, 8 environments": (8, 8), "the first 4 of 12 environments": (12, 4)}
TURN = 1024


def make_agent(num_envs: int, batch_size: int, corpus: Any, normalization: Normalization) -> PPO:
    """Return PPO with a rollout of a turn."""
    options: dict[str, Any] = {"batch_size": batch_size, "autoreset_mode": "SameStep", "credit": True}
    envs = gym.make_vec("mlgo/Inline-v0", num_envs=num_envs, corpus=corpus, **options)
    env = VecEnvAdapter(vector.NormalizeFeatures(envs, normalization))
    sizes = {"n_steps": TURN // batch_size, "batch_size": 256, "n_epochs": 4}
    return PPO("MlpPolicy", env, **sizes, gamma=0.0, seed=0, device="cpu")


def main() -> None:
    """Measure, print a table and write the results."""
    parser = command_line(__doc__)
    parser.add_argument("--rounds", type=int, default=4, help="turns of each, the first included")
    parser.add_argument("--json", type=Path, default=RESULTS / "learner_throughput.json")
    options = parser.parse_args()
    torch.set_num_threads(1)
    corpus = open_corpus(CORPUS).split("fit")
    with gym.make("mlgo/Inline-v0", corpus=corpus) as env:
        normalization = fit_normalization(env, observations=500)
    agents = {name: make_agent(*sizes, corpus, normalization) for name, sizes in KINDS.items()}
    rows = {name: {"decisions": 0.0, "seconds": 0.0, "cpu": 0.0} for name in KINDS}
    load = os.getloadavg()[0]
    for number in range(options.rounds):
        for name, agent in agents.items():
            start, cpu = time.monotonic(), cpu_seconds()
            agent.learn(TURN, reset_num_timesteps=False, callback=CreditAdvantages())
            spent = {"decisions": TURN, "seconds": time.monotonic() - start, "cpu": cpu_seconds() - cpu}
            if number:
                rows[name] = {key: value + spent[key] for key, value in rows[name].items()}
    table = Table({"rows of a step": "<32", "decisions/s": ">12.0f", "ms CPU/decision": ">16.1f"})
    for name, row in rows.items():
        row["per_second"] = row["decisions"] / row["seconds"]
        table.row(name, row["per_second"], 1000 * row["cpu"] / row["decisions"])
    write_json(options.json, {"load": load, "cores": os.cpu_count(), "rows": list(rows.values())})


if __name__ == "__main__":
    main()
