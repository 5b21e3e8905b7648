"""The meaning of the keys of `info`: the tables of the manual pages."""

from __future__ import annotations

from dataclasses import dataclass, replace

from mlgo_gym.llvm.advisors import INLINING
from mlgo_gym.tasks.measurement import ESTIMATED_INSTRUCTIONS, ESTIMATED_LINKED, LINKED, WEIGHTED
from mlgo_gym.tasks.task import Task

FIRST, DECISION, END = "at the first decision", "at each decision", "at the end"


@dataclass(frozen=True, slots=True)
class InfoKey:
    """One key of `info`.

    Attributes:
        name: the key.
        when: one of `FIRST`, `DECISION` and `END`; several with commas between.
        type: the type of its value.
        meaning: what the value says, with its unit.
        condition: under which circumstances alone it is there; empty: always.
    """

    name: str
    when: str
    type: str
    meaning: str
    condition: str = ""


_ALWAYS = f"{DECISION}, {END}"
_WITH_WEIGHTS = "with weights in `metric`"
_WITH_ESTIMATE = f'with `metric="{ESTIMATED_INSTRUCTIONS}"`'
_WITH_LINKED = f'with `metric="{LINKED}"`'
_WITH_ESTIMATED_LINKED = f'with `metric="{ESTIMATED_LINKED}"`'
_WITH_SIZES = "unless the compile ended with its function"

_SHARED = (
    InfoKey("module", _ALWAYS, "str", "the name of the module in its corpus"),
    InfoKey("decision_index", DECISION, "int", "how many decisions of this episode came before this one"),
    InfoKey(
        "illegal_action",
        _ALWAYS,
        "bool",
        "True: the last action was illegal, and clang's own choice was taken instead",
        "at a decision only if so",
    ),
    InfoKey(
        "skipped",
        FIRST,
        "dict of str",
        "the modules that were passed over in sampling because the compiler failed on them, each with the reason",
        "where there were such modules",
    ),
    InfoKey("decisions", END, "int", "how many decisions the agent took"),
    InfoKey("handed_over", END, "int", "how many decisions clang took after `max_decisions`"),
    InfoKey("text", END, "int", "the executable sections of the object file, in bytes", _WITH_SIZES),
    InfoKey("baseline_text", END, "int", "`text` of a plain compile, with the same flags", _WITH_SIZES),
    InfoKey("llvm_size", END, "int", "the first column of llvm-size: code and constants, in bytes", _WITH_SIZES),
    InfoKey("baseline_llvm_size", END, "int", "the same of a plain compile", _WITH_SIZES),
    InfoKey("object", END, "int", "the object file, in bytes", _WITH_SIZES),
    InfoKey("baseline_object", END, "int", "the same of a plain compile", _WITH_SIZES),
    InfoKey(
        ESTIMATED_INSTRUCTIONS,
        END,
        "float",
        "estimated instructions that the module executes, or one call of the function of a register-allocation episode",
        _WITH_ESTIMATE,
    ),
    InfoKey(f"baseline_{ESTIMATED_INSTRUCTIONS}", END, "float", "the estimate of a plain compile", _WITH_ESTIMATE),
    InfoKey(LINKED, END, "float", "the linked files with the module, in bytes of executable sections", _WITH_LINKED),
    InfoKey(f"baseline_{LINKED}", END, "float", "the same with the objects of plain clang alone", _WITH_LINKED),
    InfoKey(ESTIMATED_LINKED, END, "float", "`text` that survives a link, by an estimate", _WITH_ESTIMATED_LINKED),
    InfoKey(f"baseline_{ESTIMATED_LINKED}", END, "float", "that estimate of a plain compile", _WITH_ESTIMATED_LINKED),
    InfoKey(WEIGHTED, END, "float", "`1` minus the weighted sum of the relative reductions", _WITH_WEIGHTS),
    InfoKey(f"baseline_{WEIGHTED}", END, "float", "`1`", _WITH_WEIGHTS),
    InfoKey("reduction", END, "float", "`1 - cost / baseline` of the metric: 0.02 is 2 % less"),
    InfoKey(
        "stderr",
        END,
        "str",
        "what clang printed, its echoes of the advice among it",
        "with `echo_reply` in `compile_options`",
    ),
    InfoKey(
        "error",
        END,
        "dict",
        "empty; after a failure `kind`, `message`, `exit_status`, the tail of `stderr`, after a crash `reproducer`",
    ),
)

_CONTEXT = InfoKey(
    "context",
    DECISION,
    "str",
    'the functions that the inliner is at, with `callee_features`, `credit` or `scope="function"`; else empty',
)
_SITE = InfoKey(
    "site",
    DECISION,
    "DecisionSite",
    "the site of the decision: `context`, `visit` (earlier visits of the inliner to it), `index` in the visit",
    "where there is a context",
)
_CALLEE = InfoKey(
    "callee",
    DECISION,
    "str",
    "the name of the predicted callee; empty where nothing is known of it",
    "with `callee_features=True`",
)
_CREDIT = (
    InfoKey(
        "credit",
        END,
        "tuple of float",
        "the cost that each decision saved, in order and in the unit of the metric; the sum is that of the episode",
        "with `credit=True`",
    ),
    InfoKey(
        "rewards",
        END,
        "tuple of float",
        "the reward of each decision: `credit` in the unit of the reward, or equal shares of the `error_reward`",
        "with `credit=True`",
    ),
    InfoKey("function_sizes", END, "FunctionSizes", "the bytes of each function", "with `credit=True`"),
    InfoKey("baseline_function_sizes", END, "FunctionSizes", "those with clang's own choices", "with `credit=True`"),
)
_SAVED = InfoKey(
    "saved", END, "float", "the bytes of the module that the function's decisions saved", 'with `scope="function"`'
)
_CONTEXTS = InfoKey("context", DECISION, "str", "the function of this decision; empty for inlining")
_FUNCTION = InfoKey("context", END, "str", "the function that the episode was", 'with `scope="function"`')

_DEFAULT = InfoKey(
    "default_action",
    DECISION,
    "as the action",
    "the action that clang itself would take, as exactly as the features tell",
)

_MASK = InfoKey("action_mask", DECISION, "int8 array", "1 for each action that is legal, of shape (number of actions,)")

_ALLOCATION = (
    InfoKey("spill_cost", END, "float", "spills, reloads and copies by static frequency, weighted"),
    InfoKey("baseline_spill_cost", END, "float", "the same of a plain compile"),
    InfoKey("spill_count", END, "float", "how many spills, reloads and folded reloads there are"),
    InfoKey("baseline_spill_count", END, "float", "the same of a plain compile"),
    InfoKey("functions", END, "list of dict", "these four for each `function` that has any cost"),
)


def info_keys(task: Task) -> list[InfoKey]:
    """Return the keys of `info` in a task's episodes, in the order in which they come."""
    module, *others = _SHARED
    keys = [module, _CONTEXT if task.advisors == (INLINING,) else _CONTEXTS]
    keys += (_SITE, _CALLEE) if INLINING in task.advisors else ()
    keys += [_FUNCTION] if task.has_contexts else []
    keys += [_DEFAULT, *([_MASK] if task.masked else []), *others]
    if task.function_metrics:
        return [*keys, *_ALLOCATION]
    keys += [_SAVED] if task.has_contexts else []
    keys += _CREDIT if INLINING in task.advisors else ()
    return [replace(key, condition="") if key.condition == _WITH_SIZES else key for key in keys]
