"""From a policy's specification to the policy and its files: models, bundled rules, and users' code."""

import hashlib
import importlib
import importlib.util
import inspect
import math
import os
import shlex
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from difflib import get_close_matches
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

import gymnasium as gym

from mlgo_gym.cache import sha256_of
from mlgo_gym.compiler.callee_features import uses_callee_features
from mlgo_gym.corpus.corpus import Module
from mlgo_gym.corpus.training_digests import SHORT_DIGEST, sidecar_digests
from mlgo_gym.env import CompilerEnv
from mlgo_gym.errors import PolicyError
from mlgo_gym.policies.foreign_model import onnx_policy, tflite_policy
from mlgo_gym.policies.mlp import MlpPolicy
from mlgo_gym.policies.network import Network
from mlgo_gym.policies.protocol import Policy
from mlgo_gym.policies.rules import RULE_SUFFIX, RULES, RuleText, ratio_policy, rule_policy, threshold_policy
from mlgo_gym.scheduling import FileStore, StoredFiles

KINDS = ("mlp", "rule", "tflite", "onnx")
"""Prefixes of models in files. None contains Python, but the runtimes of the last two trust their files."""

BUNDLED = {path.stem: path for path in Path(__file__).with_name("bundled").glob(f"*{RULE_SUFFIX}")}
"""Files of the bundled rules by name."""


def is_model(spec: str) -> bool:
    """Return whether a policy is a model in a file."""
    kind, colon, _ = spec.partition(":")
    return bool(colon) and kind in KINDS


def is_rule(spec: str) -> bool:
    """Return whether a policy is `rule:FILE` or a bundled rule."""
    return spec.startswith("rule:") or spec in BUNDLED


def policy_file(spec: str) -> Path:
    """Return the file or folder of a model or of a bundled policy; without one, raise a PolicyError."""
    if is_model(spec):
        path = Path(spec.partition(":")[2]).expanduser()
        if not path.exists():
            raise PolicyError(f"expected a model in a file, got {spec}, and there is no {path}; check the path")
        return path
    if spec not in BUNDLED:
        raise PolicyError(f"expected a bundled policy, got {spec!r}; use {', '.join(BUNDLED)}, or mlp:FILE")
    return BUNDLED[spec]


def modules_trained_on(spec: str, modules: Iterable[Module]) -> tuple[str, ...]:
    """Return the names of modules that a policy was trained on, as far as the file beside its network tells."""
    if not is_model(spec):
        return ()
    digests = {digest[:SHORT_DIGEST] for digest in sidecar_digests(policy_file(spec))}
    known = (
        (module.name, {module.source_digest()[:SHORT_DIGEST], module.digest()[:SHORT_DIGEST]}) for module in modules
    )
    return tuple(name for name, own in known if digests and own & digests)


def file_digest(path: Path) -> str:
    """Return the SHA-256 of a file as of `sha256sum`, or of the names and contents of a folder, in hexadecimal."""
    if path.is_file():
        return sha256_of(path)
    digest = hashlib.sha256()
    for file in _files_in(path):
        digest.update(f"{file.relative_to(path)} {file.stat().st_size}\n".encode())
        digest.update(file.read_bytes())
    return digest.hexdigest()


def _files_in(folder: Path) -> list[Path]:
    return sorted(part for part in folder.rglob("*") if part.is_file())


def pack_policies(specs: Sequence[str]) -> dict[str, StoredFiles]:
    """Return the files of policies by specification, for machines without these files.

    Models and `path/to/file.py:Name` have files. A policy of an installed module must be installed on every machine.

    Raises:
        PolicyError: a file cannot be read.
    """
    packed: dict[str, StoredFiles] = {}
    for spec in specs:
        path = _file_of(spec)
        if path is not None:
            files = _files_in(path) if path.is_dir() else [path]
            try:
                packed[spec] = {str(Path(path.name, file.relative_to(path))): file.read_bytes() for file in files}
            except OSError as error:
                raise PolicyError(f"the files of {spec} cannot be read: {error}; check the path") from error
    return packed


def unpack_policy(spec: str, store: FileStore | None) -> str:
    """Return the specification of a policy on a machine that received its files; the same without a store."""
    path = None if store is None else _file_of(spec)
    if store is None or path is None:
        return spec
    received = store.folder(spec) / path.name
    return f"{spec.partition(':')[0]}:{received}" if is_model(spec) else f"{received}:{spec.rpartition(':')[2]}"


def _file_of(spec: str) -> Path | None:
    if is_model(spec):
        return Path(spec.partition(":")[2]).expanduser()
    place, colon, _ = spec.rpartition(":")
    return Path(place) if colon and place.endswith(".py") else None


_WITH_NUMBER: dict[str, tuple[Callable[[CompilerEnv, float], Policy], str]] = {
    "threshold": (threshold_policy, "20"),
    "ratio": (ratio_policy, "1.25"),
}
"""Rules with a number, and an example of it."""

_MODELS: dict[str, Callable[[CompilerEnv, Path], Policy]] = {
    "mlp": lambda env, file: MlpPolicy(env, Network.load(file), f"mlp:{file}"),
    "tflite": tflite_policy,
    "onnx": onnx_policy,
}
"""Makes a policy of an environment and a file, by prefix."""

PLAIN_CLANG = "clang:"
"""Prefix of a plain clang with other flags, for instance `clang:-mllvm,-inline-threshold=20`; no policy decides."""


def load_policy(spec: str, env: gym.Env[Any, Any], *, seed: int = 0) -> Policy:
    """Return the policy that a specification names.

    | specification | policy |
    |---|---|
    | `default`, `random`, `never`, `always`, `threshold:NUMBER` | a rule |
    | `last-call`, `rule:FILE` | a condition on features, bundled or in a file (`mlgo_gym.policies.rules`) |
    | `first_legal`, `never_evict`, `ratio:NUMBER`, `size_order` | a rule of register allocation |
    | `mlp:FILE`, `onnx:FILE`, `tflite:DIR` | a model |
    | `package.module:Name`, `path/to/file.py:Name` | a user's policy, or a class or function that makes one |

    A user's class or function is called with the environment if it has a parameter `env`.

    Args:
        spec: the specification.
        env: the environment, wrapped or not, that the policy is for.
        seed: seed of random policies.

    Raises:
        MissingExtraError: the library that reads such a model is not installed.
        PolicyError: there is no such policy, or it does not fit the environment.
    """
    inner = env.unwrapped
    if not isinstance(inner, CompilerEnv):
        raise PolicyError(f"expected an environment of mlgo-gym, got {type(inner).__name__}; make one with gym.make()")
    name, colon, argument = spec.partition(":")
    if name in _WITH_NUMBER and colon:
        make, example = _WITH_NUMBER[name]
        try:
            number = float(argument)
        except ValueError:
            number = math.nan
        if math.isnan(number):
            raise PolicyError(f"expected {name}:NUMBER, got {spec!r}; write for instance {name}:{example}")
        return make(inner, number)
    if name in RULES or name in inner.task.policies:
        if colon:
            raise PolicyError(f"the policy {name!r} takes no argument, got {argument!r}; remove it")
        policy: Policy = RULES[name](inner, seed) if name in RULES else inner.task.policies[name](inner)
        return policy
    if is_rule(spec):
        return rule_policy(inner, RuleText.load(policy_file(spec)), spec)
    if spec.startswith(PLAIN_CLANG):
        raise PolicyError(f"{spec!r} is another compile without decisions; only an evaluation can use it")
    if is_model(spec):
        return _MODELS[name](inner, policy_file(spec))
    # A misspelt kind of policy cannot be a module.
    is_module = not name.isidentifier() or find_spec(name) is not None
    if not colon or (not is_module and get_close_matches(name, (*_WITH_NUMBER, *KINDS), cutoff=0.75)):
        raise _unknown(spec, (*RULES, *inner.task.policies, *BUNDLED))
    return _users_policy(spec, inner)


def plain_clang_flags(spec: str) -> tuple[str, ...]:
    """Return the `-cc1` arguments in `clang:FLAGS`, separated by commas, or by blanks as in a shell."""
    text = spec.removeprefix(PLAIN_CLANG)
    try:
        flags = shlex.split(text) if " " in text else text.split(",")
    except ValueError as error:
        raise PolicyError(f"the flags of {spec!r} cannot be separated: {error}; close the quotation") from error
    if not flags or not all(flags):
        raise PolicyError(f"expected flags, as in clang:-mllvm,-inline-threshold=20, got {spec!r}")
    return tuple(flags)


def needs_callee_features(spec: str | Network) -> bool:
    """Return whether a policy uses callee features."""
    if isinstance(spec, Network):
        return uses_callee_features(spec.features)
    if is_rule(spec):
        return uses_callee_features(RuleText.load(policy_file(spec)).features)
    return spec.startswith("mlp:") and uses_callee_features(Network.load(policy_file(spec)).features)


def with_callee_features(arguments: Mapping[str, Any], policies: Iterable[str | Network]) -> dict[str, Any]:
    """Return the arguments of an environment, with `callee_features=True` if one of the policies needs it."""
    return {**arguments, **({"callee_features": True} if any(map(needs_callee_features, policies)) else {})}


def policy_identity(spec: str) -> str:
    """Return the specification, and the digest of the policy's file if it has one.

    Raises:
        PolicyError: The policy names a file or a module that does not exist.
    """
    if is_model(spec) or spec in BUNDLED:
        return f"{spec} {file_digest(policy_file(spec))}"
    if not is_code(spec):  # a rule of this package or of a task, or plain clang
        return spec
    source = getattr(_module_of(spec), "__file__", None)
    return f"{spec} {sha256_of(Path(source)) if source else None}"


def is_code(spec: str) -> bool:
    """Return whether a policy is a user's code, as `package.module:Name` or `path/to/file.py:Name`."""
    kind, colon, _ = spec.partition(":")
    return bool(colon) and f"{kind}:" != PLAIN_CLANG and kind not in (*_WITH_NUMBER, *KINDS)


def _users_policy(spec: str, env: CompilerEnv) -> Policy:
    module = _module_of(spec)
    policy: Any = module
    for part in spec.rpartition(":")[2].split("."):
        if not hasattr(policy, part):
            public = ", ".join(name for name in vars(module) if not name.startswith("_"))
            raise PolicyError(f"expected a name of {public or 'an empty module'}, got {part!r} in {spec}")
        policy = getattr(policy, part)
    if inspect.isclass(policy) or (callable(policy) and not hasattr(policy, "act")):
        policy = policy(env) if "env" in inspect.signature(policy).parameters else policy()
    if not callable(getattr(policy, "act", None)):
        raise PolicyError(f"expected a policy with a method act(observation, info), got {policy!r} from {spec}")
    typed: Policy = policy
    return typed


def _unknown(spec: str, names: tuple[str, ...]) -> PolicyError:
    kind, colon, argument = spec.partition(":")
    close = get_close_matches(kind, (*_WITH_NUMBER, *KINDS) if colon else names, n=2, cutoff=0.5)
    hint = f"did you mean {' or '.join(f'{name}{colon}{argument}' for name in close)}? " if close else ""
    return PolicyError(
        f"there is no policy {spec!r}; {hint}use one of {', '.join(names)}, {':FILE, '.join(KINDS)}:FILE, clang:FLAGS "
        "for a plain clang with other flags, or your own as package.module:Name or path/to/file.py:Name"
    )


def _module_of(spec: str) -> ModuleType:
    """Return the module of a specification; modules are also searched in the working folder."""
    place, colon, name = spec.rpartition(":")
    if not colon or not place or not name:
        raise PolicyError(f"expected package.module:Name or path/to/file.py:Name, got {spec!r}")
    if place.endswith(".py"):
        return _load_file(Path(place))
    folder = os.getcwd()  # noqa: PTH109 - sys.path holds strings
    if folder not in sys.path:
        sys.path.append(folder)
    try:
        return importlib.import_module(place)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{place}.".startswith(f"{error.name}."):
            raise
        raise PolicyError(
            f"there is no module {error.name!r} for the policy {spec!r}; install it, work in the folder that contains "
            "it, or write path/to/file.py:Name"
        ) from error


def _load_file(path: Path) -> ModuleType:
    try:
        code = path.read_bytes()
    except OSError as error:
        raise PolicyError(f"expected a file with a policy, got {path}: {error.strerror}; check the path") from error
    # An edited file is another module, also in a session that loaded it before.
    name = f"mlgo_gym_policy_{hashlib.sha256(os.fsencode(path.resolve()) + code).hexdigest()[:16]}"
    if name in sys.modules:
        return sys.modules[name]
    module = ModuleType(name)
    module.__file__ = str(path.resolve())
    # Dataclasses and pickle look up their module by name.
    sys.modules[name] = module
    try:
        exec(compile(code, module.__file__, "exec"), vars(module))  # noqa: S102 - the user's own policy
    except BaseException:
        del sys.modules[name]
        raise
    return module
