"""The features of clang's advisors, and the tables of the manual pages: meaning, unit and first clang version.

The meanings are those of the code that fills the features in, which the descriptions beside their declarations do not
always match: llvm/lib/Analysis/InlineCost.cpp (InlineCostFeaturesAnalyzer), MLInlineAdvisor.cpp and
FunctionPropertiesAnalysis.cpp, declared in llvm/Analysis/InlineModelFeatureMaps.h; llvm/lib/CodeGen/
MLRegAllocEvictAdvisor.cpp; llvm/lib/CodeGen/MLRegAllocPriorityAdvisor.cpp. Which clang has which feature was read from
the headers of clang 17 to 22.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from mlgo_gym.llvm.ir2vec import ARGUMENTS, OPCODES, TYPES
from mlgo_gym.llvm.toolchain import OLDEST_SUPPORTED

COLUMNS = "columns"
"""Stands for the number of columns of the eviction advisor: 33 in clang 17 to 22."""

DIMENSIONS = "D"
"""Stands for the length of an embedding, which the vocabulary decides."""

STAGES = ("new", "assign", "split", "split2", "spill", "done")
"""The stages of a live range (LiveRangeStage in llvm/lib/CodeGen/RegAllocEvictionAdvisor.h) since clang 21."""

OLDER_STAGES = (*STAGES[:-1], "memory", STAGES[-1])
"""The stages before clang 21; no live range reaches `memory` unless deferred spilling is switched on."""

NEWER_STAGES_SINCE = 21
"""The first clang with `STAGES`."""


def stage_names(version: int) -> tuple[str, ...]:
    """Return the names of the stages of a live range, by their number, in a major version of clang."""
    return STAGES if version >= NEWER_STAGES_SINCE else OLDER_STAGES


@dataclass(frozen=True, slots=True)
class Feature:
    """One tensor of an observation.

    Attributes:
        name: as clang's header has it.
        meaning: what it says, with its unit.
        type: the scalar type, as clang's header has it.
        shape: the shape, as clang's header has it, with `COLUMNS` or `DIMENSIONS` where a number is not fixed.
        since: the first clang that has it.
        bounds: the smallest and the largest value; None where nothing bounds it.
    """

    name: str
    meaning: str
    type: str = "int64_t"
    shape: tuple[int | str, ...] = (1,)
    since: int = OLDEST_SUPPORTED
    bounds: tuple[float, float] | None = None


_UNIT = (0.0, 1.0)
_LARGEST = "relative to the largest"


def _column(
    name: str,
    meaning: str,
    type: str = "float",  # noqa: A002 - as in `Feature`
    bounds: tuple[float, float] | None = _UNIT,
) -> Feature:
    return Feature(name, meaning, type, (1, COLUMNS), bounds=bounds)


_COST = "in cost units"

INLINING_FEATURES = (
    Feature(
        "sroa_savings",
        f"what inlining saves by turning the caller's stack slots that the call is passed into registers, {_COST}",
    ),
    Feature("sroa_losses", f"such savings that a use of a slot in the callee rules out, {_COST}"),
    Feature(
        "load_elimination",
        "how many loads of the callee repeat an earlier one; from 1 where a store or a call rules that out",
    ),
    Feature("call_penalty", "25 for each call that stays in the callee, in cost units"),
    Feature("call_argument_setup", f"setting up the arguments of calls that stay in the callee, {_COST} each"),
    Feature("load_relative_intrinsic", f"the callee's `llvm.load.relative`, {_COST}, 3 instructions each"),
    Feature("lowered_call_arg_setup", f"setting up the arguments of calls that become machine calls, {_COST} each"),
    Feature("indirect_call_penalty", "always 0: the features' analysis never adds to it"),
    Feature("jump_table_penalty", f"jump tables of the callee's switches, {_COST}, 1 an entry and 2 a table"),
    Feature("case_cluster_penalty", f"switches of at most 3 groups of cases, {_COST}, 2 instructions a group"),
    Feature(
        "switch_default_dest_penalty", f"default destinations of switches with a jump table, {_COST}, 2 each", since=19
    ),
    Feature("switch_penalty", f"the comparisons of all other switches, {_COST}, 2 instructions each"),
    Feature("unsimplified_common_instructions", f"instructions that no argument makes constant, {_COST}"),
    Feature(
        "num_loops",
        "25 for each loop of the callee that runs if the caller is optimised for minimal size, else 0, in cost units",
    ),
    Feature("dead_blocks", "how many blocks of the callee this call never reaches"),
    Feature("simplified_instructions", "how many instructions of the callee this call makes constant"),
    Feature("constant_args", "how many arguments of the call are constants"),
    Feature("constant_offset_ptr_args", "how many arguments are pointers at a constant offset from a known object"),
    Feature("callsite_cost", f"minus what the call itself costs: its arguments and the call, {_COST}"),
    Feature("cold_cc_penalty", "1 if the callee has the cold calling convention, else 0", bounds=_UNIT),
    Feature(
        "last_call_to_static_bonus",
        "1 if this is the only use of a function that the module keeps to itself",
        bounds=_UNIT,
    ),
    Feature("is_multiple_blocks", "1 if a block of the callee has several successors, else 0", bounds=_UNIT),
    Feature("nested_inlines", "how many indirect calls of the callee become direct here and could be inlined too"),
    Feature("nested_inline_cost_estimate", f"what inlining those would cost, {_COST}"),
    Feature("threshold", f"the target's threshold without bonuses that the callee does not earn, {_COST}"),
    Feature("callee_basic_block_count", "the callee's basic blocks"),
    Feature(
        "callsite_height", "the caller's level in the original call graph: the longest way down to a leaf, in calls"
    ),
    Feature("node_count", "the functions that the module defines at this moment"),
    Feature("nr_ctant_params", "how many arguments of the call are constants"),
    Feature("cost_estimate", f"clang's estimate of what inlining costs; 0 where it has none, {_COST}"),
    Feature("edge_count", "the calls between defined functions in the module at this moment"),
    Feature("caller_users", "the uses of the caller in the module; 1 more if it can be seen from outside"),
    Feature("caller_conditionally_executed_blocks", "the successors of the caller's conditional branches and switches"),
    Feature("caller_basic_block_count", "the caller's basic blocks"),
    Feature("callee_conditionally_executed_blocks", "the successors of the callee's conditional branches and switches"),
    Feature("callee_users", "the uses of the callee in the module; 1 more if it can be seen from outside"),
    Feature(
        "is_callee_avail_external",
        "1 if the callee's body is only there to be inlined (`available_externally`)",
        since=19,
        bounds=_UNIT,
    ),
    Feature(
        "is_caller_avail_external",
        "1 if the caller's body is only there to be inlined (`available_externally`)",
        since=19,
        bounds=_UNIT,
    ),
    Feature("inlining_default", "clang's own choice: 1 to inline, 0 not to", bounds=_UNIT),
)
"""One question per call site; all but the last describe it."""

EMBEDDINGS = tuple(
    Feature(
        f"{side}_embedding",
        f"the IR2Vec embedding of the {side} at this moment: the sum of the vectors of its instructions",
        "float",
        (DIMENSIONS,),
        since=22,
    )
    for side in ("callee", "caller")
)
"""The features that a vocabulary adds, before `inlining_default`."""

EVICTION_FEATURES = (
    _column("mask", "1 if the column may be chosen, else 0", "int64_t"),
    _column("is_free", "1 if nothing occupies the register, else 0", "int64_t"),
    _column(
        "nr_urgent",
        f"live ranges that a candidate that cannot be spilled may evict against the usual order, {_LARGEST}",
    ),
    _column("nr_broken_hints", f"how many live ranges would lose the register that they prefer, {_LARGEST}"),
    _column("is_hint", "1 if the candidate prefers this register, else 0", "int64_t"),
    _column(
        "is_local",
        "how many live ranges in the register lie within one block, if the candidate does too; else 0",
        "int64_t",
        None,
    ),
    _column("nr_rematerializable", f"how many live ranges can be computed anew instead of reloaded, {_LARGEST}"),
    _column("nr_defs_and_uses", f"definitions and uses, not weighted, {_LARGEST}"),
    _column("weighed_reads_by_max", f"instructions that only read, times their block's frequency, {_LARGEST}"),
    _column("weighed_writes_by_max", f"instructions that only write, times their block's frequency, {_LARGEST}"),
    _column("weighed_read_writes_by_max", f"instructions that do both, times their block's frequency, {_LARGEST}"),
    _column(
        "weighed_indvars_by_max",
        f"writes in a block that can leave its loop, alive beyond it, times the block's frequency, {_LARGEST}",
    ),
    _column("hint_weights_by_max", f"copies that prefer a register, times their block's frequency, {_LARGEST}"),
    _column("start_bb_freq_by_max", f"the frequency of the block where the first live range begins, {_LARGEST}"),
    _column("end_bb_freq_by_max", f"the frequency of the block where the last live range ends, {_LARGEST}"),
    _column("hottest_bb_freq_by_max", f"the frequency of the hottest block with a use, {_LARGEST}"),
    _column("liverange_size", f"the distance from first begin to last end, in slots of instructions, {_LARGEST}"),
    _column("use_def_density", f"the largest spill weight, {_LARGEST}; NaN if infinite, and then 0 where it is finite"),
    _column("max_stage", "the latest stage of the live ranges in the register", "int64_t", None),
    _column("min_stage", "the earliest stage of the live ranges in the register", "int64_t", None),
    Feature(
        "progress",
        "live ranges in the queue now, divided by all that there were at the start",
        "float",
        bounds=(0, float("inf")),
    ),
)
"""One question per live range that found no register; a column is what occupies a register, or the candidate."""

PRIORITY_FEATURES = (
    Feature("li_size", "how long the live range is, the sum of its segments, in slots of instructions"),
    Feature("stage", "its stage"),
    Feature(
        "weight",
        "its spill weight: uses by block frequency, divided by its length; at most 65536, also if it must not spill",
        "float",
    ),
)
"""One question per live range that is put into the queue."""

BOUNDS = {
    feature.name: feature.bounds
    for feature in (*INLINING_FEATURES, *EVICTION_FEATURES, *PRIORITY_FEATURES)
    if feature.bounds is not None
}
"""Smallest and largest value of each feature that has bounds."""

WEIGHT_CAP = 2.0**16
"""Spill weight of a live range that must not spill, and the largest one of an observation."""

FEATURES = {"inlining": INLINING_FEATURES, "eviction": EVICTION_FEATURES, "priority": PRIORITY_FEATURES}
"""The features of each advisor by its name, in the order of the newest clang's header."""


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
    "Features of the call, and of the callee as inlined here, unless a row says otherwise. A cost unit is LLVM's unit "
    "of inline cost: an instruction costs 5. In a flat observation each feature is one element.",
    INLINING_FEATURES,
    source="llvm/lib/Analysis/InlineCost.cpp, MLInlineAdvisor.cpp, FunctionPropertiesAnalysis.cpp",
)

EMBEDDINGS_TABLE = FeatureTable(
    "Embeddings",
    "Before `inlining_default`. In a flat observation the elements are `callee_embedding[0]` and so on, or have the "
    "names below. The vocabulary decides the unit; the one-hot vocabulary counts.",
    EMBEDDINGS,
    _entities(),
    "llvm/lib/Analysis/IR2Vec.cpp",
)

EVICTION_TABLE = FeatureTable(
    "Eviction",
    "`columns` is 33. In a flat observation the elements are `nr_urgent[0]` and so on; `mask` is `action_mask`. "
    "Frequencies are static estimates, relative to the function's entry. *Relative to the largest* means divided by "
    "the largest value of all columns.",
    EVICTION_FEATURES,
    _stages(),
    "llvm/lib/CodeGen/MLRegAllocEvictAdvisor.cpp",
)

PRIORITY_TABLE = FeatureTable(
    "Priority",
    "In a flat observation each is one element. `weight_infinite` follows: 1 if clang's weight is infinite, since the "
    "live range must not spill, else 0.",
    PRIORITY_FEATURES,
    _stages(),
    "llvm/lib/CodeGen/MLRegAllocPriorityAdvisor.cpp",
)
