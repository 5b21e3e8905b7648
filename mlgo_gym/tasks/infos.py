"""The one table of the keys of `info`, and the rendering of a decision as text.

`KEYS` declares each key once: name, time, type and meaning. `decision_info()` reads those of a pending decision.
Everything else derives:

- `empty_last_info()`: the keys of the last info with empty values, for a compile that failed.
- `NumericInfos`: the same keys at every step, as numbers.
- `info_keys()`: the keys of one task, for the manual and its tests.

A new key is one row here, and an entry of `decision_info()`, of `Task.report()` or of the outcome.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import gymnasium as gym
import numpy as np

from mlgo_gym.compiler.decision import Decision
from mlgo_gym.compiler.decision_code import PendingCode
from mlgo_gym.llvm.advisors import INLINING
from mlgo_gym.llvm.sizes import FunctionSizes
from mlgo_gym.tasks.measurement import INSTRUCTIONS, LINKED, MAX_FRAME, WEIGHTED
from mlgo_gym.tasks.task import Task

if TYPE_CHECKING:
    from mlgo_gym.corpus.corpus import Corpus

FIRST, DECISION, END = "at the first decision", "at each decision", "at the end"
COST = "cost"
"""In the table instead of `END`: a cost, of which there also is that of the baseline."""

SIZES = "unless the compile ended with its function"
FUNCTION, CREDIT = 'with `scope="function"`', "with `credit=True`"
CALLEE_FEATURES = "with `callee_features=True`"


class InfoKey(NamedTuple):
    """One key of `info`, and the meaning of its value with its unit.

    Attributes:
        when: `FIRST`, `DECISION` or `END`; several with commas between.
        type: Type of the value; the first word is a key of `_EMPTY`, or the value is an array.
        condition: Circumstance without which the key is absent; empty: none.
        tasks: Tasks with the key, a key of `_TASKS`.
    """

    name: str
    when: str
    type: str
    meaning: str
    condition: str = ""
    tasks: str = ""


_EMPTY: dict[str, Callable[[], Any]] = {
    "int": int,
    "float": lambda: math.nan,
    "bool": bool,
    "str": str,
    "dict": dict,
    "list": list,
    "tuple": tuple,
    "FunctionSizes": lambda: FunctionSizes({}, {}, 0, 0),
}
"""Empty value of each type, in the last info of a failed compile."""

_INLINING, _ALLOCATION, _MASKED = "inlining", "register allocation", "masked actions"
_TASKS: dict[str, Callable[[Task], bool]] = {
    "": lambda _: True,
    _INLINING: lambda task: INLINING in task.advisors,
    _ALLOCATION: lambda task: bool(task.function_metrics),
    _MASKED: lambda task: task.masked,
}


def with_metric(metric: str) -> str:
    """Return the condition of the keys of a metric that is measured on request."""
    return "with weights in `metric`" if metric == WEIGHTED else f'with `metric="{metric}"`'


_TABLE = f"""
module | {DECISION}, {END} | str | name of the module in its corpus
context | {DECISION} | str | function of the decision; for inlining the functions that the inliner visits, and empty
    without `callee_features` and `credit`
context | {END} | str | function of the episode | {FUNCTION}
site | {DECISION} | DecisionSite | site of the decision: `context`, `visit` (earlier visits of the inliner to it),
    `index` in the visit | where there is a context | {_INLINING}
callee | {DECISION} | str | predicted callee that the callee features describe, empty where unknown; `code` predicts
    more exactly | {CALLEE_FEATURES} | {_INLINING}
code | {DECISION} | PendingCode | code of the decision, until it is answered: `ir()` and `call_graph()`; it can be
    pickled, but is no JSON | with `ir=True` or `observation="graph"` | {_INLINING}
decision_index | {DECISION} | int | number of earlier decisions of this episode
default_action | {DECISION} | as the action | action that clang itself would take, as exactly as the features tell
action_mask | {DECISION} | int8 array | 1 for each legal action, of shape (number of actions,) | | {_MASKED}
illegal_action | {DECISION}, {END} | bool | True: the last action was illegal, and clang's own choice replaced it | at
    a decision only if so
skipped | {FIRST} | dict of str | modules that sampling skipped because the compiler failed on them, each with the
    reason | if there are any
decisions | {END} | int | number of decisions of the agent
handed_over | {END} | int | number of decisions that clang took after `max_decisions`
text | {COST} | int | executable sections of the object file, in bytes | {SIZES}
llvm_size | {COST} | int | first column of llvm-size: code and constants, in bytes | {SIZES}
loaded | {COST} | int | contents of memory: the columns text and data of size, in bytes | {SIZES}
object | {COST} | int | object file, in bytes | {SIZES}
{MAX_FRAME} | {COST} | int | largest stack frame of the functions of the module, in bytes | {with_metric(MAX_FRAME)}
grown_frames | {END} | int | number of functions whose frame is larger than in a plain compile |
    {with_metric(MAX_FRAME)}
spill_cost | {COST} | float | spills, reloads and copies by static frequency, weighted | | {_ALLOCATION}
functions | {END} | list of dict | spill costs of each `function` with any | | {_ALLOCATION}
{INSTRUCTIONS} | {COST} | float | instructions that the programs execute | {with_metric(INSTRUCTIONS)}
{LINKED} | {COST} | float | executable sections of the linked files, in bytes | {with_metric(LINKED)}
{WEIGHTED} | {COST} | float | 1 minus the weighted sum of the relative reductions | {with_metric(WEIGHTED)}
reduction | {END} | float | `1 - cost / baseline` of the metric: 0.02 is 2 % less
credit | {END} | tuple of float | cost that each decision saved, in the unit of the metric; the sum is that of the
    episode | {CREDIT} | {_INLINING}
rewards | {END} | tuple of float | reward of each decision: `credit` in the unit of the reward, or equal shares of the
    `error_reward` | {CREDIT} | {_INLINING}
function_sizes | {END} | FunctionSizes | bytes of each function | {CREDIT} | {_INLINING}
baseline_function_sizes | {END} | FunctionSizes | the same with clang's own choices | {CREDIT} | {_INLINING}
error | {END} | dict | empty; after a failure `kind`, `message`, `exit_status`, the tail of `stderr`, the `command` of
    clang, and `answers`, the advice to all decisions as hexadecimal bytes
"""


def _keys() -> Iterator[InfoKey]:
    """Read the table, whose cells are the attributes of a key; a row continues on indented lines."""
    for row in _TABLE.replace("\n    ", " ").strip().splitlines():
        key = InfoKey(*(cell.strip() for cell in row.split("|")))
        if key.when != COST:
            yield key
            continue
        plain = f"`{key.name}` of a plain compile by the same clang with the same flags"
        yield key._replace(when=END)
        yield key._replace(name=f"baseline_{key.name}", when=END, meaning="1" if key.name == WEIGHTED else plain)


KEYS = tuple(_keys())
"""The keys of `info`, in the order of the manual."""


def info_keys(task: Task) -> list[InfoKey]:
    """Return the keys of a task's infos; without the condition `SIZES` where every compile goes to its end."""
    keys = [key for key in KEYS if _TASKS[key.tasks](task)]
    if not task.function_metrics:
        keys = [key._replace(condition="") if key.condition == SIZES else key for key in keys]
    # An episode of several kinds of decisions is no single function.
    return keys if task.has_contexts else [key for key in keys if key.condition != FUNCTION]


def decision_info(task: Task, decision: Decision, module: str, number: int, *, has_site: bool = True) -> dict[str, Any]:
    """Return the info of a pending decision, after a number of earlier ones; `has_site`: the session follows sites."""
    site, callee = decision.site, decision.callee
    info: dict[str, Any] = {"module": module, "context": site[0]}
    if has_site and site[0]:
        info["site"] = site
    if callee is not None:
        info["callee"] = callee
    if decision.code is not None:
        info["code"] = PendingCode(decision.code)
    info["decision_index"] = number
    info["default_action"] = task.default_action(decision)
    if task.masked and (mask := task.action_mask(decision)) is not None:
        info["action_mask"] = mask
    return info


def absent_choices(task: Task) -> dict[str, Any]:
    """Return zeros in the form of `default_action`, and of `action_mask` if actions are masked."""
    space = task.action_space
    if not isinstance(space, gym.spaces.Discrete):
        return {"default_action": np.zeros(space.shape or (), space.dtype)}
    return {"default_action": 0} | ({"action_mask": np.zeros(int(space.n), np.int8)} if task.masked else {})


def empty_last_info(task: Task, conditions: Collection[str]) -> dict[str, Any]:
    """Return a last info with empty values (integers 0, floats NaN) under conditions among those of `KEYS`."""
    return {
        key.name: _EMPTY[key.type.partition(" ")[0]]()
        for key in info_keys(task)
        if END in key.when and (key.when != END or not key.condition or key.condition in conditions)
    }


class NumericInfos:
    """Converts infos for libraries that stack those of several environments or steps.

    Missing values are 0. Strings, lists, dictionaries and code are dropped. `module` is the position of the module in
    the corpus, and `failed` marks a failed compile.
    """

    def __init__(self, task: Task, conditions: Collection[str]) -> None:
        last = empty_last_info(task, conditions)
        numbers = {name: type(value)() for name, value in last.items() if isinstance(value, (int, float))}
        self._defaults = {"module": -1, "decision_index": 0, **absent_choices(task), "failed": False, **numbers}

    def of(self, info: Mapping[str, Any], corpus: Corpus) -> dict[str, Any]:
        """Return the numeric form of an info about a module of a corpus."""
        numeric = {key: info.get(key, default) for key, default in self._defaults.items()}
        numeric["module"] = corpus.position(info["module"])
        numeric["failed"] = bool(info.get("error"))
        return {key: value.copy() if isinstance(value, np.ndarray) else value for key, value in numeric.items()}


def render_text(task: Task, module: str, number: int, decision: Decision, last_action: Any) -> str:
    """Return a few lines about a decision: its kind and place, clang's own choice, and the action before."""
    where = f"{module}, function {decision.context}" if decision.context else module
    lines = [f"{task.advisors[decision.advisor].name} decision {number} of {where}"]
    if decision.callee:
        lines.append(f"  callee {decision.callee}")
    lines.append(f"  clang's own choice {task.default_action(decision)}")
    if last_action is not None:
        lines.append(f"  the action before {last_action}")
    return "\n".join(lines)


def render_end(module: str, number: int, info: Mapping[str, Any]) -> str:
    """Return a few lines about the end of an episode, from its number of decisions and its last info."""
    if info["error"]:
        return f"{module} failed after {number} decisions: {info['error']['message']}"
    lines = [f"{module} is compiled, after {number} decisions"]
    names = [name for name in info if f"baseline_{name}" in info]
    width = max(map(len, names), default=0)
    lines += [f"  {name:<{width}}  {info[name]:,.6g}; clang alone {info[f'baseline_{name}']:,.6g}" for name in names]
    lines.append(f"  {abs(info['reduction']):.2%} {'less' if info['reduction'] >= 0 else 'more'} than clang alone")
    return "\n".join(lines)
