"""A random agent: the loop that every agent has, on one module.

pip install .   # in a clone of mlgo-gym
python random_agent.py [CORPUS]
"""

import sys

import gymnasium as gym

import mlgo_gym  # registers the environments


def main(corpus: str = "builtin") -> None:
    """Run one episode and print what it did to the size of the code."""
    print(f"mlgo-gym {mlgo_gym.__version__}")
    env = gym.make("mlgo/Inline-v0", corpus=corpus)
    env.action_space.seed(0)
    _, info = env.reset(seed=0)
    print(f"{info['module']}: clang asks whether to inline")
    over = False
    while not over:
        _, reward, terminated, truncated, info = env.step(env.action_space.sample())
        over = terminated or truncated
    print(f"{info['decisions']} random decisions: {info['text']} bytes of code")
    print(f"clang's own heuristic: {info['baseline_text']} bytes; reward {reward:+.3f}")
    env.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
