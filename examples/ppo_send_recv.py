"""PPO that waits for no slow module: 12 clangs, and the four that are ready first get their actions.

In lock step every environment waits for the slowest. Here `recv()` returns the environments that are ready, in any
order, and `send()` takes their actions. An update learns from whole episodes, from the credit of each decision. All
else is as in `cleanrl_ppo.py`.

pip install '.[learn]'   # in a clone of mlgo-gym
python ppo_send_recv.py [CORPUS] [STEPS] [FILE] [SEED]
mlgo-gym evaluate mlgo/Inline-v0 --corpus builtin@Os --split test --policy mlp:FILE
"""

from mlgo_gym.extras import require_libraries

require_libraries("learn", "torch")

import sys
import time
from dataclasses import dataclass, field
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from cleanrl_ppo import learn, mlp
from hyperparameters import CHECKPOINTS, CLANGS, CORPUS, HIDDEN_FEATURES, READY, hyperparams
from torch import distributions

from mlgo_gym import BestCheckpoint, evaluate, open_corpus
from mlgo_gym.integrations import fit_normalization, vector
from mlgo_gym.integrations.pytorch import read_sequential

SETTINGS = hyperparams["mlgo/Inline-v0"]
UPDATE_STEPS = SETTINGS["n_steps"] * SETTINGS["n_envs"]


@dataclass
class Episode:
    """The decisions of the running episode of one environment."""

    observations: list[torch.Tensor] = field(default_factory=list)
    actions: list[torch.Tensor] = field(default_factory=list)
    log_probs: list[torch.Tensor] = field(default_factory=list)


def main(
    corpus: str = CORPUS,
    steps: str = str(SETTINGS["n_timesteps"]),
    file: str = "ppo_send_recv.safetensors",
    seed: str = "0",
) -> None:
    """Train for a number of decisions, and print a table of the best checkpoint, a rule, and clang."""
    modules = open_corpus(corpus)
    train, valid, test = (modules.split(part) for part in ("fit", "valid", "test"))
    with gym.make("mlgo/Inline-v0", corpus=train) as env:
        normalization = fit_normalization(env, observations=min(20_000, int(steps)))
    normalization = normalization.select([name for name in normalization.names if name not in HIDDEN_FEATURES])

    # In SameStep mode the observation that comes with an episode's end is the next episode's first.
    options: dict[str, Any] = {"batch_size": READY, "autoreset_mode": "SameStep", "credit": True}
    envs = vector.NormalizeFeatures(
        gym.make_vec("mlgo/Inline-v0", num_envs=CLANGS, corpus=train, **options), normalization
    )

    torch.manual_seed(int(seed))
    features = len(normalization.names)
    actor, critic = mlp(features, 2, 0.01), mlp(features, 1, 1.0)
    optimizer = torch.optim.Adam([*actor.parameters(), *critic.parameters()], lr=SETTINGS["learning_rate"], eps=1e-5)
    best = BestCheckpoint("mlgo/Inline-v0", valid, file)
    started = time.monotonic()
    update_steps = min(UPDATE_STEPS, int(steps))
    running = [Episode() for _ in range(CLANGS)]
    envs.async_reset(seed=int(seed))

    updates = max(1, int(steps) // update_steps)
    done = 0
    for update in range(1, updates + 1):
        # Act where a decision is ready, until enough episodes have ended.
        finished: list[tuple[Episode, torch.Tensor]] = []
        while sum(len(credit) for _, credit in finished) < update_steps:
            batch, _, terminated, truncated, info = envs.recv()
            ready = info["env_id"]
            for row in np.flatnonzero(terminated | truncated).tolist():
                finished.append((running[ready[row]], torch.tensor(info["final_info"]["rewards"][row])))
                running[ready[row]] = Episode()
            observations = torch.from_numpy(batch)
            with torch.no_grad():
                choice = distributions.Categorical(logits=actor(observations))
            actions = choice.sample()
            log_probs = choice.log_prob(actions)
            for row, number in enumerate(ready):
                running[number].observations.append(observations[row])
                running[number].actions.append(actions[row])
                running[number].log_probs.append(log_probs[row])
            envs.send(actions.numpy(), ready)

        seen = torch.stack([item for episode, _ in finished for item in episode.observations])
        taken = torch.stack([item for episode, _ in finished for item in episode.actions])
        before = torch.stack([item for episode, _ in finished for item in episode.log_probs])
        learn(actor, critic, optimizer, seen, taken, before, torch.cat([credit for _, credit in finished]))
        done += len(seen)

        if update % max(1, updates // CHECKPOINTS) == 0 or update == updates:
            read_sequential(actor, normalization).save(f"{file}.last")
            change = best.offer(f"mlp:{file}.last")
            minutes = (time.monotonic() - started) / 60
            print(
                f"{minutes:4.1f} min, {done:7,} decisions: {change:+.2%} on validation modules, "
                f"best {best.change:+.2%}",
                flush=True,
            )

    envs.close()
    policies = {"trained": best.policy, "threshold": "threshold:5", "clang": "default"}
    print(evaluate("mlgo/Inline-v0", corpus=test, policies=policies))


if __name__ == "__main__":
    main(*sys.argv[1:])
