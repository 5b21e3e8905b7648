"""What an evaluation records: its settings, its modules, and one policy on one module with its actions."""

from __future__ import annotations

import base64
import binascii
import traceback
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np

from mlgo_gym.cache import JsonCache
from mlgo_gym.corpus.corpus import Module
from mlgo_gym.episode.outcome import describe_failure
from mlgo_gym.errors import CompilerError, MlgoError
from mlgo_gym.llvm.bitcode import BitcodeFacts, read_bitcode
from mlgo_gym.storage.json_files import check_fields

FORMAT = 3

UNKNOWN = "unknown"
"""Language of a module whose bitcode and build do not tell it."""

_facts = JsonCache("bitcode-facts")


@dataclass(frozen=True, slots=True)
class Configuration:
    """The settings that the results of an evaluation depend on.

    Attributes:
        environment: Id of the environment.
        arguments: Its arguments that results depend on, without the corpus.
        metric: Name of the compared metric, such as `text`.
        corpus: Corpus as the caller named it; the name of a `Corpus`.
        modules: Number of evaluated modules.
        modules_digest: Digest of their names, files and flags.
        levels: Number of modules per optimisation level of their functions, for each corpus.
        clang: Version of the compiler.
        mlgo_gym: Version of this package.
        seed: Seed of random policies and of `limit`.
        policies: Identity of each policy, by name.
        split: Part of the corpus; None for all of it.
        limit: Number of modules that were drawn at random; None for all of them.
        counter: Counter of executed instructions; None with metrics that count none.
        contents: Digests of the compiler, of files in arguments, and of links and programs that the metric uses.
        trained_on: Modules that a policy was trained on, by policy, as far as the file beside its network tells.
    """

    environment: str
    arguments: Mapping[str, Any]
    metric: str
    corpus: str
    modules: int
    modules_digest: str
    levels: Mapping[str, Mapping[str, int]]
    clang: str
    mlgo_gym: str
    seed: int
    policies: Mapping[str, str]
    split: str | None = None
    limit: int | None = None
    counter: str | None = None
    contents: Mapping[str, str] = field(default_factory=dict)
    trained_on: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def identity(self) -> dict[str, Any]:
        """Everything that the results depend on, for `refuse_other_identity()`."""
        names = ("environment", "arguments", "split", "clang", "mlgo_gym", "seed", "counter", "policies", "contents")
        modules = f"{self.modules} with the digest {self.modules_digest}"
        return {name: getattr(self, name) for name in names} | {"modules": modules}

    def to_json(self) -> dict[str, Any]:
        """Return JSON-able data."""
        return {"format": FORMAT, **asdict(self)}

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Configuration:
        """Build a configuration from the data of `to_json()`; other data raise a TypeError, KeyError or ValueError."""
        rest = dict(check_fields(cls, value))
        if rest.pop("format") != FORMAT:
            raise KeyError("format")
        trained_on = {policy: tuple(modules) for policy, modules in rest.pop("trained_on", {}).items()}
        return cls(**rest, trained_on=trained_on)


@dataclass(frozen=True, slots=True)
class ModuleFacts:
    """Facts about a module of an evaluation, by which two evaluations are compared.

    Attributes:
        module: Name of the module.
        digest: SHA-256 of its bitcode.
        source: SHA-256 of its source; None if the corpus does not record it.
        language: Source language, or `UNKNOWN`.
        flags: Recorded flags; None if the module has none.
    """

    module: str
    digest: str
    source: str | None
    language: str
    flags: tuple[str, ...] | None

    @classmethod
    def of(cls, module: Module, facts: BitcodeFacts) -> ModuleFacts:
        """Return the facts about a module, given those in its bitcode.

        The recorded build has the language as `language` in the module's `.json`. Otherwise the source's name, the
        compiler that wrote the bitcode and the mangling of its functions' names are consulted, in this order.
        """
        source = module.metadata.get("source_sha256")
        language = str(module.metadata.get("language") or facts.language or UNKNOWN)
        flags = None if module.flags is None else tuple(module.flags)
        return cls(module.name, module.digest(), source if isinstance(source, str) else None, language, flags)

    @classmethod
    def from_json(cls, value: object) -> ModuleFacts:
        """Build facts from a line of `modules.jsonl`; other data raise a TypeError, KeyError or ValueError."""
        fields = check_fields(cls, value)
        return cls(**{**fields, "flags": None if fields["flags"] is None else tuple(fields["flags"])})


def bitcode_facts(module: Module) -> BitcodeFacts:
    """Return the facts in a module's bitcode; they are read once and cached on disk."""
    key = module.digest()
    try:
        return BitcodeFacts(**(_facts.get(key) or {}))
    except TypeError:  # not in the cache, or written by another release
        facts = read_bitcode(module.bitcode)
        _facts.put(key, asdict(facts))
        return facts


DONE = "done"
NO_DECISIONS = "no-decisions"
FAILED = "failed"

MAX_BYTES = 1 << 26
"""Maximum size of the actions of an episode; far above the decisions of any compile."""

_BASELINE = "baseline_"

Metrics = dict[str, tuple[float, float]]
"""Value of the policy and of plain clang, by metric."""


class Assignment(NamedTuple):
    """One policy on one module, with the project of the module."""

    policy: str
    module: str
    project: str


@dataclass(frozen=True, slots=True)
class EpisodeRecord:
    """The record of one policy on one module.

    Attributes:
        policy: Name of the policy.
        module: Name of the module.
        project: Project of the module.
        status: `DONE`; `NO_DECISIONS` if the module has none; or `FAILED`.
        metrics: Value of the policy and of plain clang, by metric.
        reward: Sum of the rewards; None for a plain compile.
        decisions: Number of decisions that the policy took.
        handed_over: Number of decisions that clang took after `max_decisions`.
        illegal_actions: Number of illegal actions, which clang's own choice replaced.
        actions: Actions of the episode as `pack_actions()` packs them; None for a plain compile.
        seconds: Duration of the episode, including the baseline if it had to be compiled.
        grown_frames: Number of functions whose stack frame exceeds that of plain clang; None unless measured.
        error: Description of a failure: `kind` and `message`, where known `exit_status` and `stderr`.
        policy_seconds: CPU time of the policy.
    """

    policy: str
    module: str
    project: str
    status: str
    metrics: Metrics = field(default_factory=dict)
    reward: float | None = None
    decisions: int = 0
    handed_over: int = 0
    illegal_actions: int = 0
    actions: str | None = None
    seconds: float = 0.0
    error: dict[str, Any] | None = None
    policy_seconds: float = 0.0
    grown_frames: int | None = None

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> EpisodeRecord:
        """Build a record from its fields as JSON data; other data raise a KeyError, TypeError or ValueError."""
        check_fields(cls, value)
        if value["status"] not in (DONE, NO_DECISIONS, FAILED):
            raise ValueError(f"status {value['status'][:80]!r}")
        if any(number < 0 for pair in value["metrics"].values() for number in pair):
            raise ValueError("a negative metric")
        metrics = {name: (pair[0], pair[1]) for name, pair in value["metrics"].items()}
        return cls(**{**value, "metrics": metrics})

    @classmethod
    def of_error(cls, assignment: Assignment, error: Exception) -> EpisodeRecord:
        """Return the record of an episode that an exception of the compiler, this package or the policy ended."""
        if isinstance(error, CompilerError):
            details = describe_failure(error)
        elif isinstance(error, MlgoError):
            details = {"kind": type(error).__name__, "message": str(error)}
        else:
            lines = "".join(traceback.format_exception(error))
            details = {"kind": "policy", "message": f"{type(error).__name__}: {error}", "traceback": lines}
        return cls(*assignment, FAILED, error=details)


def metrics_of(info: Mapping[str, Any]) -> Metrics:
    """Return the metrics in an episode's last info, each with its baseline."""
    pairs = {name: (info[name], info[_BASELINE + name]) for name in info if _BASELINE + name in info}
    return {name: pair for name, pair in pairs.items() if isinstance(pair[0], (int, float))}


def pack_actions(actions: Sequence[Any], space: gym.Space[Any]) -> str:
    """Return actions of a Discrete or Box space as text: base64 of their compressed little-endian bytes."""
    return base64.b64encode(zlib.compress(np.asarray(actions, _dtype(space)).tobytes())).decode()


def unpack_actions(text: str, space: gym.Space[Any]) -> list[Any]:
    """Return the actions that `pack_actions()` packed for the same action space.

    Raises `MlgoError` if the text is no packed actions of this space.
    """
    try:
        packed = zlib.decompressobj()
        data = packed.decompress(base64.b64decode(text, validate=True), MAX_BYTES)
        if not packed.eof:
            raise ValueError(f"truncated, or more than {MAX_BYTES:,} bytes")
        actions = np.frombuffer(data, _dtype(space)).reshape(-1, *(space.shape or ()))
    except (binascii.Error, zlib.error, ValueError) as error:
        raise MlgoError(f"expected packed actions of {space}, got another form ({error}); evaluate again") from error
    return actions.tolist() if isinstance(space, gym.spaces.Discrete) else list(actions)


def _dtype(space: gym.Space[Any]) -> np.dtype[Any]:
    return np.dtype("<i2" if isinstance(space, gym.spaces.Discrete) else "<f4")
