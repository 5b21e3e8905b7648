"""The tables of a manual page: what a task's features mean."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from mlgo_gym.llvm.ir2vec import ARGUMENTS, OPCODES, TYPES
from mlgo_gym.tasks.feature_reference import (
    EMBEDDINGS,
    EVICTION_FEATURES,
    INLINING_FEATURES,
    NEWER_STAGES_SINCE,
    OLDER_STAGES,
    PRIORITY_FEATURES,
    STAGES,
    Feature,
)


@dataclass(frozen=True, slots=True)
class FeatureTable:
    """The features of one advisor, or some of them, with what is to be said of all.

    Attributes:
        title: the heading.
        introduction: what holds for all rows, in Markdown.
        features: a row each, in the order of the header.
        note: what is to be said behind the table, in Markdown; empty if nothing.
        source: the files of LLVM that fill the features in; empty where that is not known.
    """

    title: str
    introduction: str
    features: tuple[Feature, ...]
    note: str = ""
    source: str = ""


def _stages() -> str:
    def listing(names: Iterable[str]) -> str:
        return ", ".join(f"{number} {name}" for number, name in enumerate(names))

    newer, older = listing(STAGES), listing(OLDER_STAGES)
    return f"Stages of a live range: since clang {NEWER_STAGES_SINCE} {newer}; before it {older}."


def _entities() -> str:
    kinds = {"opcode": OPCODES, "type": TYPES, "operand": ARGUMENTS}
    lines = [f"- `SIDE_{kind}_NAME`: {', '.join(f'`{entity}`' for entity in names)}" for kind, names in kinds.items()]
    return "\n".join(
        [
            'With `vocabulary="one-hot"` the elements are, where `SIDE` is `callee` or `caller`, and `NAME` is of:',
            "",
            *lines,
        ]
    )


INLINING_TABLE = FeatureTable(
    "Inlining",
    "Of the call and of the callee as they would be here, unless a row says otherwise. In a flat observation each is "
    "one element.",
    INLINING_FEATURES,
    source="llvm/lib/Analysis/InlineCost.cpp, MLInlineAdvisor.cpp, FunctionPropertiesAnalysis.cpp",
)

EMBEDDINGS_TABLE = FeatureTable(
    "Embeddings",
    "Before `inlining_default`. In a flat observation the elements are `callee_embedding[0]` and so on, or have the "
    "names below.",
    EMBEDDINGS,
    _entities(),
    "llvm/lib/Analysis/IR2Vec.cpp",
)

EVICTION_TABLE = FeatureTable(
    "Eviction",
    "`columns` is 33. In a flat observation the elements are `nr_urgent[0]` and so on; `mask` is `action_mask`. "
    "Frequencies are static estimates, relative to the function's entry.",
    EVICTION_FEATURES,
    _stages(),
    "llvm/lib/CodeGen/MLRegAllocEvictAdvisor.cpp",
)

PRIORITY_TABLE = FeatureTable(
    "Priority",
    "In a flat observation each is one element.",
    PRIORITY_FEATURES,
    _stages(),
    "llvm/lib/CodeGen/MLRegAllocPriorityAdvisor.cpp",
)
