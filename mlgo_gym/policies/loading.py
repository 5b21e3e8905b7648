"""From what a user writes to a policy."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from typing import Any

import gymnasium as gym

from mlgo_gym.env import CompilerEnv
from mlgo_gym.errors import PolicyError
from mlgo_gym.policies.always import AlwaysPolicy
from mlgo_gym.policies.box import box_file, boxed_policies, boxed_policy
from mlgo_gym.policies.calls import sees_calls
from mlgo_gym.policies.default import DefaultPolicy
from mlgo_gym.policies.first_legal import FirstLegalPolicy
from mlgo_gym.policies.model_files import MODEL_POLICIES, file_digest, is_model, load_model, model_digest
from mlgo_gym.policies.network import Network
from mlgo_gym.policies.never import NeverPolicy
from mlgo_gym.policies.never_evict import NeverEvictPolicy
from mlgo_gym.policies.plain_clang import PREFIX as PLAIN_CLANG
from mlgo_gym.policies.protocol import Policy
from mlgo_gym.policies.random import RandomPolicy
from mlgo_gym.policies.size_order import SizeOrderPolicy
from mlgo_gym.policies.threshold import ThresholdPolicy
from mlgo_gym.policies.user_code import find_object, source_digest

_OF_AN_ENVIRONMENT: dict[str, Callable[[CompilerEnv], Policy]] = {
    "never": NeverPolicy,
    "always": AlwaysPolicy,
    "first_legal": FirstLegalPolicy,
    "never_evict": NeverEvictPolicy,
    "size_order": SizeOrderPolicy,
}

BUILTIN_POLICIES = ("default", "random", "threshold", *_OF_AN_ENVIRONMENT)
"""The names of the policies that come with the package."""


def load_policy(spec: str, env: gym.Env[Any, Any], *, seed: int = 0) -> Policy:
    """Return the policy that a specification names.

    Args:
        spec: a builtin name (`default`, `never`, `always`, `random`, `threshold:NUMBER`, `first_legal`,
            `never_evict`, `size_order`), a policy in the box (`inline-oz`, …), a model in a file (`mlp:FILE` and its
            like), or `package.module:Name` or
            `path/to/file.py:Name`, where Name is a policy, or a class or function that makes one; it is given the
            environment if it has a parameter `env`.
        env: the environment, wrapped or not, that the policy is for.
        seed: what random policies depend on.

    Raises:
        MissingExtraError: what reads such a model is not installed.
        PolicyError: there is no such policy, it is none, or it does not fit the environment.
    """
    inner = env.unwrapped
    if not isinstance(inner, CompilerEnv):
        raise PolicyError(f"policies answer the environments of mlgo-gym, found {type(inner).__name__}; make one")
    name, colon, argument = spec.partition(":")
    if name == "threshold":
        return ThresholdPolicy(inner, _number(argument)) if colon else ThresholdPolicy(inner)
    if name in BUILTIN_POLICIES or name in inner.task.policies:
        if colon:
            raise PolicyError(f"the policy {name!r} takes no argument, found {argument!r}; leave it out")
        if name == "default":
            return DefaultPolicy()
        if name == "random":
            return RandomPolicy(inner, seed)
        policy: Policy = {**_OF_AN_ENVIRONMENT, **inner.task.policies}[name](inner)
        return policy
    if spec in boxed_policies():
        return boxed_policy(inner, spec)
    if spec.startswith(PLAIN_CLANG):
        raise PolicyError(f"{spec!r} answers no decisions, it is another compile; only an evaluation can use it")
    if is_model(spec):
        return load_model(spec, inner)
    if not colon:
        raise _unknown(spec, (*BUILTIN_POLICIES, *inner.task.policies, *boxed_policies()))
    return _users_policy(spec, inner)


def wants_calls(spec: str) -> bool:
    """Return whether a policy is for environments with `calls=True`: it fits no others, or is a worse one there.

    Raises:
        PolicyError: its file is no network.
    """
    if spec in boxed_policies():
        return sees_calls(Network.load(box_file(spec, calls=True)))
    kind, _, path = spec.partition(":")
    return kind == "mlp" and sees_calls(Network.load(path))


def with_calls(arguments: Mapping[str, Any], policies: Iterable[str]) -> dict[str, Any]:
    """Return the arguments of an environment, with `calls=True` where one of some policies wants it.

    Raises:
        PolicyError: a policy's file is no network.
    """
    return {**arguments, **({"calls": True} if any(map(wants_calls, policies)) else {})}


def policy_identity(spec: str) -> str:
    """Return what tells a policy from others of the same name: the specification, and the digest of the user's file.

    Of two networks in the box under one name it is that of the one that sees calls, as `with_calls()` has it used.

    Raises:
        PolicyError: it names a file or a module that does not exist.
    """
    if spec in boxed_policies():
        return f"{spec} {file_digest(box_file(spec, calls=True))}"
    # What has no colon is a name, of this package's or a task's own.
    if spec.startswith(PLAIN_CLANG) or ":" not in spec or spec.partition(":")[0] in BUILTIN_POLICIES:
        return spec
    return f"{spec} {model_digest(spec) if is_model(spec) else source_digest(spec)}"


def _users_policy(spec: str, env: CompilerEnv) -> Policy:
    found = find_object(spec)
    if inspect.isclass(found) or (callable(found) and not hasattr(found, "act")):
        found = found(env) if "env" in inspect.signature(found).parameters else found()
    if not callable(getattr(found, "act", None)):
        raise PolicyError(
            f"{spec} was to be a policy, or to make one, and {found!r} has no method act(observation, info); write one"
        )
    policy: Policy = found
    return policy


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise PolicyError(f"threshold takes a number, found {text!r}; write it as in threshold:20") from None


def _unknown(spec: str, names: tuple[str, ...]) -> PolicyError:
    close = get_close_matches(spec, names, n=2, cutoff=0.5)
    hint = f"did you mean {' or '.join(close)}? " if close else ""
    return PolicyError(
        f"there is no policy {spec!r}; {hint}there are {', '.join((*names, *MODEL_POLICIES))}, clang:FLAGS "
        "for a plain clang with other flags, and your own as package.module:Name or path/to/file.py:Name"
    )
