"""The keyword arguments of the environments' constructors, as type checkers and editors read them.

The fields of `mlgo_gym.episode.options` declare the same arguments, with defaults and documentation.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Literal

from gymnasium.vector import AutoresetMode
from typing_extensions import TypedDict

from mlgo_gym.corpus.corpus import Corpus
from mlgo_gym.episode.options import CompileOptions


class EnvironmentArguments(TypedDict, total=False):
    """The arguments of every environment."""

    corpus: str | os.PathLike[str] | Corpus
    target: str | None
    clang: str | None
    observation: str
    reward: str
    metric: str | Mapping[str, float] | None
    scope: str
    max_decisions: int | None
    strict: bool
    error_reward: float | Literal["lowest"] | None
    compile_options: CompileOptions | Mapping[str, Any]
    module_order: str | Mapping[str, float]
    info: str
    render_mode: str | None


class InliningArguments(EnvironmentArguments, total=False):
    """The arguments of environments with inlining decisions."""

    callee_features: bool
    link_facts: str | os.PathLike[str] | None
    credit: bool


class AllocationArguments(EnvironmentArguments, total=False):
    """The arguments of environments with register-allocation decisions."""

    cost_weights: Mapping[str, float] | None


class VectorArguments(TypedDict, total=False):
    """The further arguments of vector environments."""

    autoreset_mode: AutoresetMode | str
    batch_size: int | None
    prefetch: int


class InliningVectorArguments(InliningArguments, VectorArguments, total=False):
    """The arguments of vector environments with inlining decisions."""


class AllocationVectorArguments(AllocationArguments, VectorArguments, total=False):
    """The arguments of vector environments with register-allocation decisions."""
