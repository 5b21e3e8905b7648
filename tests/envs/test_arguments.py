"""Every argument of an environment has an effect: with another value an episode differs, or is refused."""

from dataclasses import fields
from typing import Any

import numpy as np
import pytest

from mlgo_gym import ActionError, CompilerEnv, MlgoError
from mlgo_gym.envs import InlineEnv, RegAllocEvictEnv
from mlgo_gym.episode.argument_types import keyword_parameters
from mlgo_gym.episode.options import CompileOptions
from tests.fakes.drive import failed_end, finish

ARGUMENTS: dict[str, tuple[Any, dict[str, Any]]] = {
    "target": ("riscv64-linux-musl", {}),
    "clang": ("nowhere", {}),
    "observation": ("vector", {}),
    "reward": ("bytes", {}),
    "metric": ("object", {}),
    "scope": ("function", {}),
    "max_decisions": (1, {}),
    "strict": (False, {}),
    "error_reward": (-3.0, {}),
    "link_view": (True, {}),
    "module_order": ("cycle", {}),
    "info": ("numeric", {}),
    "render_mode": ("ansi", {}),
    "callee_features": (True, {}),
    "link_facts": ("nowhere.facts", {}),
    "credit": (True, {}),
    "ir": (True, {}),
    "max_functions": (2, {"observation": "graph"}),
}
"""For each argument another value than the default, and the arguments beside it."""

COMPILE_OPTIONS: dict[str, Any] = {
    "flags": ["-O1"],
    "extra_flags": ["-mllvm", "-inline-threshold=3"],
    # Shorter than the start of clang, but not so short that each wait for a CPU is a reason for more time.
    "timeout": 1e-3,
    "memory_limit": 1e-6,
    "cpu_limit": 1e-6,
    "preoptimize": False,
}

ELSEWHERE = {
    "corpus": "every test",
    "compile_options": "the table above",
    "trust_flags": "tests/corpus/test_flags.py",
    "check_flags": "tests/corpus/test_flags.py",
    "fork_resets": "tests/episode/test_warm_starts.py",
}


def behaviour(kind: type[CompilerEnv], corpus: str, **arguments: Any) -> object:
    """Return what an environment shows: its spaces, two episodes, a failure, an illegal action, and its command."""
    try:
        env = kind(corpus=corpus, **arguments)
    except MlgoError as error:
        return str(error)
    shown: list[Any] = [str(env.observation_space), *env.feature_names]
    try:
        for seed in (4, None):
            observation, info = env.reset(seed=seed)
            shown += [arrays(observation), *sorted(info), info.get("module"), env.render() if env.render_mode else ""]
            steps = finish(env, info, other_action)
            shown += [len(steps), [step.reward for step in steps], *sorted(steps[-1].info)]
        shown += env.compilation(env.corpus.module("mixed")).flags
        shown.append(failed_end(env, "mixed").reward)
        env.reset(options={"module": "mixed"})
        shown.append(env.step(10**6)[1])
    except ActionError:
        shown.append("refused")
    except MlgoError as error:
        shown.append(str(error)[:80])
    env.close()
    return shown


def other_action(info: dict[str, Any]) -> Any:
    """Return another action than clang's where all are legal."""
    return info["default_action"] if "action_mask" in info else 1 - info["default_action"]


def arrays(observation: Any) -> list[bytes]:
    values = observation.values() if isinstance(observation, dict) else [observation]
    return [np.asarray(getattr(value, "nodes", value)).tobytes() for value in values]


@pytest.mark.parametrize("kind", [InlineEnv, RegAllocEvictEnv])
def test_another_value_of_an_argument_has_an_effect(kind: type[CompilerEnv], varied: str) -> None:
    declared = {*keyword_parameters(kind)}
    assert declared <= {*ARGUMENTS, *ELSEWHERE}
    usual = behaviour(kind, varied)
    same = []
    for name, (value, beside) in ARGUMENTS.items():
        if name in declared:
            reference = behaviour(kind, varied, **beside) if beside else usual
            if behaviour(kind, varied, **beside, **{name: value}) == reference:
                same.append(name)
    for name, value in COMPILE_OPTIONS.items():
        # A clang that waits for a CPU gets more time.
        if all(behaviour(kind, varied, compile_options={name: value}) == usual for _ in range(6)):
            same.append(name)
    # Where nothing is masked, both forms are one vector; inlining is decided before anything is optimised.
    assert same == (["observation", "preoptimize"] if kind is InlineEnv else [])


def test_the_table_has_every_option_of_a_compile() -> None:
    assert {field.name for field in fields(CompileOptions)} <= {*COMPILE_OPTIONS, *ELSEWHERE}
