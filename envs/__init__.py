"""The environments: one file each."""

from mlgo_gym.envs.inline import InlineEnv

__all__ = ["InlineEnv"]
