"""The features of clang's advisors: the tables of the manual pages.

The meanings are those of the code that fills the features in, which the descriptions beside their declarations do not
always match: llvm/lib/Analysis/InlineCost.cpp (InlineCostFeaturesAnalyzer), MLInlineAdvisor.cpp and
FunctionPropertiesAnalysis.cpp, declared in llvm/Analysis/InlineModelFeatureMaps.h; llvm/lib/CodeGen/
MLRegAllocEvictAdvisor.cpp; llvm/lib/CodeGen/MLRegAllocPriorityAdvisor.cpp. Which clang has which feature was read from
the headers of clang 17 to 22.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from mlgo_gym.llvm.toolchain import OLDEST_SUPPORTED

_OPCODE_WORDS = """
    Ret Br Switch IndirectBr Invoke Resume Unreachable CleanupRet CatchRet CatchSwitch CallBr FNeg Add FAdd Sub FSub Mul
    FMul UDiv SDiv FDiv URem SRem FRem Shl LShr AShr And Or Xor Alloca Load Store GetElementPtr Fence AtomicCmpXchg
    AtomicRMW Trunc ZExt SExt FPToUI FPToSI UIToFP SIToFP FPTrunc FPExt PtrToInt PtrToAddr IntToPtr BitCast
    AddrSpaceCast CleanupPad CatchPad ICmp FCmp PHI Call Select UserOp1 UserOp2 VAArg ExtractElement InsertElement
    ShuffleVector ExtractValue InsertValue LandingPad Freeze
"""
_TYPE_WORDS = """
    FloatTy VoidTy LabelTy MetadataTy VectorTy TokenTy IntegerTy FunctionTy PointerTy StructTy ArrayTy UnknownTy
"""
_ARGUMENT_WORDS = """
    Function Pointer Constant Variable FCMP_false FCMP_oeq FCMP_ogt FCMP_oge FCMP_olt FCMP_ole FCMP_one FCMP_ord
    FCMP_uno FCMP_ueq FCMP_ugt FCMP_uge FCMP_ult FCMP_ule FCMP_une FCMP_true ICMP_eq ICMP_ne ICMP_ugt ICMP_uge ICMP_ult
    ICMP_ule ICMP_sgt ICMP_sge ICMP_slt ICMP_sle
"""

OPCODES = tuple(_OPCODE_WORDS.split())
TYPES = tuple(_TYPE_WORDS.split())
ARGUMENTS = tuple(_ARGUMENT_WORDS.split())
ENTITIES = (*OPCODES, *TYPES, *ARGUMENTS)
"""The entities of clang 22's vocabulary, in the order in which `llvm-ir2vec entities` lists them."""

ENTITY_KINDS = {"opcode": OPCODES, "type": TYPES, "operand": ARGUMENTS}
"""The entities by kind."""

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


@dataclass(frozen=True, slots=True)
class Feature:
    """One tensor of an observation: name, type and shape as in clang's header.

    The shape has `COLUMNS` or `DIMENSIONS` where a number is not fixed. `since` is the first clang with the feature,
    and `bounds` are its smallest and largest value; None where nothing bounds it.
    """

    name: str
    meaning: str
    type: str = "int64_t"
    shape: tuple[int | str, ...] = (1,)
    since: int = OLDEST_SUPPORTED
    bounds: tuple[float, float] | None = None


_UNIT = (0.0, 1.0)
_LARGEST = "relative to the largest"


def _cost(name: str, meaning: str, since: int = OLDEST_SUPPORTED) -> Feature:
    return Feature(name, f"{meaning}, in cost units", since=since)


def _flag(name: str, meaning: str, since: int = OLDEST_SUPPORTED) -> Feature:
    return Feature(name, meaning, since=since, bounds=_UNIT)


def _integers(name: str, meaning: str, bounds: tuple[float, float] | None = _UNIT) -> Feature:
    return Feature(name, meaning, "int64_t", (1, COLUMNS), bounds=bounds)


def _relative(name: str, meaning: str) -> Feature:
    return Feature(name, f"{meaning}, {_LARGEST}", "float", (1, COLUMNS), bounds=_UNIT)


INLINING_FEATURES = (
    _cost("sroa_savings", "saved by turning stack slots of the caller that the call is passed into registers"),
    _cost("sroa_losses", "such savings that a use of a slot in the callee rules out"),
    Feature("load_elimination", "loads of the callee that repeat an earlier one, up to a store or a call"),
    _cost("call_penalty", "25 for each call that stays in the callee"),
    _cost("call_argument_setup", "arguments of calls that stay in the callee"),
    _cost("load_relative_intrinsic", "`llvm.load.relative` of the callee, 3 instructions each"),
    _cost("lowered_call_arg_setup", "arguments of calls that become machine calls"),
    Feature("indirect_call_penalty", "always 0: the features' analysis never adds to it"),
    _cost("jump_table_penalty", "jump tables of the callee's switches, 1 an entry and 2 a table"),
    _cost("case_cluster_penalty", "switches of at most 3 groups of cases, 2 instructions a group"),
    _cost("switch_default_dest_penalty", "default destinations of switches with a jump table, 2 each", since=19),
    _cost("switch_penalty", "comparisons of all other switches, 2 instructions each"),
    _cost("unsimplified_common_instructions", "instructions that no argument makes constant"),
    _cost("num_loops", "25 for each loop of the callee that runs if the caller is optimised for minimal size, else 0"),
    Feature("dead_blocks", "blocks of the callee that this call never reaches"),
    Feature("simplified_instructions", "instructions of the callee that this call makes constant"),
    Feature("constant_args", "arguments of the call that are constants"),
    Feature("constant_offset_ptr_args", "arguments that are pointers at a constant offset from a known object"),
    _cost("callsite_cost", "minus the cost of the call itself: its arguments and the call"),
    _flag("cold_cc_penalty", "1 if the callee has the cold calling convention, else 0"),
    _flag("last_call_to_static_bonus", "1 if this is the only use of a function that the module keeps to itself"),
    _flag("is_multiple_blocks", "1 if a block of the callee has several successors, else 0"),
    Feature("nested_inlines", "indirect calls of the callee that become direct here and could be inlined too"),
    _cost("nested_inline_cost_estimate", "cost of inlining those"),
    _cost("threshold", "threshold of the target without bonuses that the callee does not earn"),
    Feature("callee_basic_block_count", "basic blocks of the callee"),
    Feature("callsite_height", "level of the caller in the original call graph: calls on the longest way to a leaf"),
    Feature("node_count", "functions that the module defines at this moment"),
    Feature("nr_ctant_params", "arguments of the call that are constants"),
    _cost("cost_estimate", "clang's estimate of the cost of inlining; 0 where it has none"),
    Feature("edge_count", "calls between defined functions in the module at this moment"),
    Feature("caller_users", "uses of the caller in the module; 1 more if it can be seen from outside"),
    Feature("caller_conditionally_executed_blocks", "successors of the caller's conditional branches and switches"),
    Feature("caller_basic_block_count", "basic blocks of the caller"),
    Feature("callee_conditionally_executed_blocks", "successors of the callee's conditional branches and switches"),
    Feature("callee_users", "uses of the callee in the module; 1 more if it can be seen from outside"),
    _flag(
        "is_callee_avail_external", "1 if the callee's body is `available_externally`: there to be inlined", since=19
    ),
    _flag(
        "is_caller_avail_external", "1 if the caller's body is `available_externally`: there to be inlined", since=19
    ),
    _flag("inlining_default", "clang's own choice: 1 to inline, 0 not to"),
)
"""One question per call site; all but the last describe it."""

EMBEDDINGS = tuple(
    Feature(
        f"{side}_embedding",
        f"IR2Vec embedding of the {side} at this moment: the sum of the vectors of its instructions",
        "float",
        (DIMENSIONS,),
        since=22,
    )
    for side in ("callee", "caller")
)
"""The features that a vocabulary adds, before `inlining_default`."""

EVICTION_FEATURES = (
    _integers("mask", "1 if the column may be chosen, else 0"),
    _integers("is_free", "1 if nothing occupies the register, else 0"),
    _relative("nr_urgent", "live ranges that a candidate that cannot be spilled may evict against the usual order"),
    _relative("nr_broken_hints", "live ranges that would lose the register that they prefer"),
    _integers("is_hint", "1 if the candidate prefers this register, else 0"),
    _integers("is_local", "live ranges in the register within one block, if the candidate is too; else 0", None),
    _relative("nr_rematerializable", "live ranges that can be computed anew instead of reloaded"),
    _relative("nr_defs_and_uses", "definitions and uses, not weighted"),
    _relative("weighed_reads_by_max", "instructions that only read, times their block's frequency"),
    _relative("weighed_writes_by_max", "instructions that only write, times their block's frequency"),
    _relative("weighed_read_writes_by_max", "instructions that do both, times their block's frequency"),
    _relative(
        "weighed_indvars_by_max", "writes in a block that can leave its loop, alive beyond it, times the frequency"
    ),
    _relative("hint_weights_by_max", "copies that prefer a register, times their block's frequency"),
    _relative("start_bb_freq_by_max", "frequency of the block where the first live range begins"),
    _relative("end_bb_freq_by_max", "frequency of the block where the last live range ends"),
    _relative("hottest_bb_freq_by_max", "frequency of the hottest block with a use"),
    _relative("liverange_size", "distance from first begin to last end, in slots of instructions"),
    _relative("use_def_density", "largest spill weight; NaN if infinite, and then 0 where it is finite"),
    _integers("max_stage", "latest stage of the live ranges in the register", None),
    _integers("min_stage", "earliest stage of the live ranges in the register", None),
    Feature(
        "progress", "live ranges in the queue now, divided by those at the start", "float", bounds=(0, float("inf"))
    ),
)
"""One question per live range that found no register; a column is what occupies a register, or the candidate."""

PRIORITY_FEATURES = (
    Feature("li_size", "length of the live range, the sum of its segments, in slots of instructions"),
    Feature("stage", "stage of the live range"),
    Feature("weight", "spill weight: uses by block frequency, divided by the length; at most 65536", "float"),
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


@dataclass(frozen=True, slots=True)
class FeatureTable:
    """The features of one advisor, in the order of the header, with what holds for all, in Markdown.

    `note` follows the table; `source` has the files of LLVM that fill the features in.
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
    lines = [
        f"- `SIDE_{kind}_NAME`: {', '.join(f'`{entity}`' for entity in names)}" for kind, names in ENTITY_KINDS.items()
    ]
    words = 'With `vocabulary="one-hot"` the elements are, where `SIDE` is `callee` or `caller`, and `NAME` is of:'
    return "\n".join([words, "", *lines])


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
