"""The identity of results: everything that decides an outcome, by contents. A run adds to results of that identity."""

import inspect
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import mlgo_gym
from mlgo_gym.cache import key_of, sha256_of
from mlgo_gym.corpus.corpus import Module
from mlgo_gym.env import CompilerEnv
from mlgo_gym.episode.options import COMPILE_OPTIONS
from mlgo_gym.errors import MlgoError
from mlgo_gym.make_env import FILE_ARGUMENTS
from mlgo_gym.policies import Policy
from mlgo_gym.policies.loading import is_code, policy_identity
from mlgo_gym.policies.network import Network

_WITHOUT_EFFECT = frozenset({"clang", "corpus", "module_order", "render_mode"})
"""Arguments of environments that change no result; compiler and modules count by their contents."""

_EFFECTIVE_COMPILE_OPTIONS = frozenset({"extra_flags", "flags"})
"""Entries of `compile_options` that change results. Limits only change failures, which run again."""

UNNAMED = "an object of "
"""Beginning of the identity of a policy whose contents have no name."""


def effective_arguments(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of an environment that results depend on, as after a round trip through JSON."""
    effective = {name: value for name, value in arguments.items() if name not in _WITHOUT_EFFECT}
    entries = effective.pop(COMPILE_OPTIONS, {})
    entries = {name: value for name, value in entries.items() if name in _EFFECTIVE_COMPILE_OPTIONS}
    try:
        # JSON has no tuples.
        result: dict[str, Any] = json.loads(
            json.dumps({**effective, COMPILE_OPTIONS: entries} if entries else effective, default=os.fspath)
        )
    except TypeError as error:
        raise MlgoError(f"expected JSON values as arguments of a run with results, got {arguments}: {error}") from error
    return result


def identity_of(
    env: CompilerEnv, environment: str, arguments: Mapping[str, Any], policies: Mapping[str, str | Network | Policy]
) -> dict[str, Any]:
    """Return everything that decides the outcomes of a run in an environment, but its modules and its own settings.

    The keys are those of `Configuration`. `contents` has digests of the compiler, of files in arguments, of links and
    programs that the metric uses, and of the code of an environment outside of this package. Raises `MlgoError` for an
    argument that is no JSON value.
    """
    files = {name: Path(arguments[name]) for name in FILE_ARGUMENTS if arguments.get(name) is not None}
    if not type(env).__module__.startswith("mlgo_gym."):
        files["code of the environment"] = Path(inspect.getfile(type(env)))
    return {
        "environment": environment,
        "arguments": effective_arguments(arguments),
        "contents": {
            "clang": env.toolchain.digest(),
            **{name: sha256_of(file) for name, file in files.items() if file.is_file()},
            **{metric: cost.identity for metric, cost in env.setup.project_costs.items()},
        },
        "clang": env.toolchain.version_text,
        "mlgo_gym": mlgo_gym.__version__,
        "policies": {name: _policy(policy, env) for name, policy in policies.items()},
    }


def _policy(policy: str | Network | Policy, env: CompilerEnv) -> str:
    if isinstance(policy, Network):
        layers = [layer.tolist() for layer in (*policy.weights, *policy.biases)]
        normalization = policy.normalization and policy.normalization.to_json()
        return f"network {key_of(policy.features, policy.activation, normalization, layers)}"
    if not isinstance(policy, str):
        return f"{UNNAMED}{type(policy).__qualname__}"
    identity = policy_identity(policy)
    # Code reads any observation, and one policy with callee features adds them to the observations of all.
    return f"{identity} {key_of(env.feature_names)[:16]}" if is_code(policy) else identity


def module_identity(module: Module) -> str:
    """Return the digest of everything that a module gives to an outcome: its name, flags, and the contents of files."""
    return key_of(module.name, module.contents(), module.flags)


def refuse_other_identity(path: Path, recorded: Mapping[str, Any], requested: Mapping[str, Any]) -> None:
    """Raise `MlgoError` if results in a file or folder have another identity than those of a run.

    Of policies, those of equal names must be equal and have contents; of file arguments the contents count.
    """
    lines = []
    for name in dict.fromkeys((*recorded, *requested)):
        old, new = recorded.get(name), requested.get(name)
        if name == "arguments" and isinstance(old, dict) and isinstance(new, dict):
            old, new = ({key: value for key, value in each.items() if key not in FILE_ARGUMENTS} for each in (old, new))
        if name == "policies" and isinstance(old, dict) and isinstance(new, dict):
            for policy in old.keys() & new.keys():
                if new[policy].startswith(UNNAMED):
                    lines.append(
                        f"policy {policy}: results of {old[policy]} have no name of its contents; name the policy by "
                        "its specification, as path/to/file.py:Name"
                    )
                elif old[policy] != new[policy]:
                    lines.append(f"policy {policy}: recorded {old[policy]}, requested {new[policy]}")
        elif old != new:
            lines.append(f"{name}: recorded {old}, requested {new}")
    if lines:
        raise MlgoError(
            f"expected results of one configuration in {str(path)!r}, got others, which cannot be mixed "
            f"({'; '.join(lines)}); choose another output, or delete it"
        )
