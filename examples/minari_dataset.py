"""Minari records episodes of a policy as a dataset for offline learning, and reads it back.

pip install '.[tools]' 'minari[create,hdf5]' pillow   # in a clone of mlgo-gym
python minari_dataset.py [CORPUS] [EPISODES] [DATASET] [POLICY]
"""

import sys

import gymnasium as gym
import minari

import mlgo_gym
from mlgo_gym.policies import load_policy


def main(
    corpus: str = "builtin@Oz:train",
    episodes: str = "10",
    dataset: str = "mlgo/inline/threshold-v0",
    policy: str = "threshold:5",
) -> None:
    """Record a number of episodes, and print what the dataset holds."""
    env = gym.make("mlgo/Inline-v0", corpus=corpus)
    assert isinstance(env.unwrapped, mlgo_gym.CompilerEnv)
    acting = load_policy(policy, env.unwrapped)
    recorder = minari.DataCollector(env)
    for number in range(int(episodes)):
        observation, info = recorder.reset(seed=0 if number == 0 else None)
        over = False
        while not over:
            action = acting.act(observation, info)
            observation, _, terminated, truncated, info = recorder.step(action)
            over = terminated or truncated
    recorder.create_dataset(
        dataset_id=dataset,
        algorithm_name=policy,
        author="you",
        author_email="you@example.org",
        code_permalink="https://example.org/minari_dataset.py",
        description=f"mlgo/Inline-v0 under {policy}; the last reward of an episode is the relative reduction",
    )
    recorder.close()

    stored = minari.load_dataset(dataset)
    print(f"{dataset}: {stored.total_episodes} episodes, {stored.total_steps} decisions")
    for episode in stored.iterate_episodes():
        inlined = int(episode.actions.sum())
        print(f"episode {episode.id}: {inlined} of {len(episode.actions)} calls inlined, {episode.rewards.sum():+.2%}")


if __name__ == "__main__":
    main(*sys.argv[1:])
