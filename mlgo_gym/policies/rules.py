"""Rules: policies without anything learned, by name; and `rule:FILE`, a condition on features.

A rule file has the condition under which a call is inlined. It may span lines; `#` starts a comment:

    # Inline the last call of a function that the compiler may then drop.
    callee_last == 1 and callee_kept == 0 and 0 <= callee_linkage <= 1

A condition consists of names of features, numbers, `+ - *`, comparisons, `and`, `or`, `not` and parentheses, with the
precedence of Python. It is computed in double precision, so that exported C decides alike.
"""

import ast
import copy
import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType
from typing import Any

import gymnasium as gym
import numpy as np

from mlgo_gym.env import CompilerEnv
from mlgo_gym.errors import PolicyError
from mlgo_gym.llvm.advisors import EVICTION, INLINING, PRIORITY, default_eviction
from mlgo_gym.policies.network import Floats
from mlgo_gym.policies.protocol import Policy, check_advisor, check_binary, feature_vector, misfit

_LARGEST = 2.0**24
"""Size in slots above which `size_order` treats live ranges alike: float32 holds every smaller size."""


class Rule:
    """A policy that is one function of the observation and the info."""

    def __init__(self, decide: Callable[[Any, Mapping[str, Any]], Any]) -> None:
        self._decide = decide

    def act(self, observation: Any, info: Mapping[str, Any]) -> Any:
        """Return the action for a decision."""
        return self._decide(observation, info)


def _constant(name: str, action: int) -> Callable[[CompilerEnv, int], Policy]:
    def make(env: CompilerEnv, _seed: int) -> Policy:
        check_binary(name, env)
        return Rule(lambda _observation, _info: action)

    return make


def random_policy(env: CompilerEnv, seed: int) -> Policy:
    """Draw uniformly among the legal actions, or from the whole action space without a mask.

    Each episode has its own generator, seeded by the seed and the module's name. So its actions depend neither on the
    order of the modules nor on the number of processes.
    """
    space = copy.deepcopy(env.action_space)

    def draw(_observation: Any, info: Mapping[str, Any]) -> Any:
        if info["decision_index"] == 0:
            digest = hashlib.sha256(f"{seed}:{info['module']}".encode(errors="surrogateescape")).digest()
            space.seed(int.from_bytes(digest[:4], "little"))
        mask = info.get("action_mask")
        return space.sample() if mask is None else space.sample(mask)

    return Rule(draw)


def threshold_policy(env: CompilerEnv, threshold: float = 0.0) -> Policy:
    """Inline a call if its `cost_estimate` is below a threshold, in LLVM's inline-cost units.

    The estimate is that of `getInliningCostEstimate` (llvm/lib/Analysis/InlineCost.cpp): 5 per instruction, and
    negative if the call itself costs more than the callee's body.
    """
    check_binary("threshold", env)
    cost = feature_vector("threshold", env, ["cost_estimate"])
    return Rule(lambda observation, _info: int(cost(observation)[0] < threshold))


def ratio_policy(env: CompilerEnv, ratio: float) -> Policy:
    """Evict by LLVM's own rule, but live ranges up to a multiple of the candidate's weight (> 0; 1 in LLVM).

    Where all weights are 0 because one is infinite, it takes clang's own choice.
    """
    check_advisor("ratio", env, EVICTION)
    if not ratio > 0:
        raise PolicyError(
            f"expected ratio:NUMBER with a number > 0, got ratio:{ratio:g}; write for instance ratio:1.25"
        )
    columns = int(env.action_space.n)  # type: ignore[attr-defined]  # Discrete, as its task says
    names = ("is_hint", "is_local", "nr_broken_hints", "nr_urgent", "use_def_density")
    find = feature_vector("ratio", env, [f"{name}[{column}]" for name in names for column in range(columns)])

    def decide(observation: Any, info: Mapping[str, Any]) -> Any:
        features = find(observation).reshape(len(names), columns).tolist()
        if not any(features[-1]):
            return info["default_action"]
        return default_eviction(info["action_mask"], *features, ratio=ratio)

    return Rule(decide)


def first_legal_policy(env: CompilerEnv, _seed: int) -> Policy:
    """Evict from the first legal register in allocation order."""
    check_advisor("first_legal", env, EVICTION)
    return Rule(lambda _observation, info: int(np.argmax(info["action_mask"])))


def never_evict_policy(env: CompilerEnv, _seed: int) -> Policy:
    """Evict nothing, the last action, so that the candidate is split or spilled; clang's choice if it must evict."""
    check_advisor("never_evict", env, EVICTION)

    def keep(_observation: Any, info: Mapping[str, Any]) -> Any:
        mask = info["action_mask"]
        return len(mask) - 1 if mask[-1] else info["default_action"]

    return Rule(keep)


def size_order_policy(env: CompilerEnv, _seed: int) -> Policy:
    """Allocate the largest live ranges first: the action is in proportion to `li_size`, in instruction slots.

    Clang also considers the stage, the start and the registers of a live range.
    """
    check_advisor("size_order", env, PRIORITY)
    space = env.action_space
    if not (isinstance(space, gym.spaces.Box) and space.low.size == 1):
        raise misfit("size_order", "an action space Box of one number", str(space))
    size = feature_vector("size_order", env, ["li_size"])

    def order(observation: Any, _info: Mapping[str, Any]) -> Any:
        part = min(float(size(observation)[0]), _LARGEST) / _LARGEST
        return (space.low + part * (space.high - space.low)).astype(space.dtype)

    return Rule(order)


RULES: dict[str, Callable[[CompilerEnv, int], Policy]] = {
    "default": lambda _env, _seed: Rule(lambda _observation, info: info["default_action"]),
    "random": random_policy,
    "threshold": lambda env, _seed: threshold_policy(env),
    "never": _constant("never", 0),
    "always": _constant("always", 1),
    "first_legal": first_legal_policy,
    "never_evict": never_evict_policy,
    "size_order": size_order_policy,
}
"""Rules by name; each takes an environment and a seed, and raises a PolicyError if it does not fit."""

RULE_SUFFIX = ".rule"

_COMPARISONS = {ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!="}
_SUMS = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*"}


@dataclass(frozen=True, slots=True)
class RuleText:
    """The condition of a rule.

    Attributes:
        text: the condition, without comments, in one line.
        features: names of its features, in the order of their first use.
        code: the condition as an expression of C and C++ on `const float *features`, in the order of `features`.
    """

    text: str
    features: tuple[str, ...]
    code: str
    _python: CodeType = field(repr=False, compare=False)

    def __call__(self, values: Floats) -> bool:
        """Return whether the condition holds for raw features, float32 of shape (features,)."""
        # `_Translation` accepts neither calls nor attributes.
        names = dict(zip(self.features, values.tolist(), strict=True))
        return bool(eval(self._python, {"__builtins__": {}}, names))  # noqa: S307 - of names and numbers alone

    @classmethod
    def parse(cls, text: str, name: str) -> "RuleText":
        """Return the rule of a file's contents; `name` is for errors.

        Raises:
            PolicyError: the text is no condition.
        """
        lines = [line.partition("#")[0].strip() for line in text.splitlines()]
        condition = " ".join(filter(None, lines))
        translation = _Translation(name)
        try:
            tree = ast.parse(f"({condition})", mode="eval")
            code = translation.condition(tree.body)
            python = compile(tree, name, "eval")
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            raise PolicyError(f"expected a condition in {name}, got {condition[:100]!r}: {error}") from None
        return cls(condition, tuple(translation.columns), code, python)

    @classmethod
    def load(cls, path: Path) -> "RuleText":
        """Return the rule of a file.

        Raises:
            PolicyError: there is no such file, its name has another suffix, or its text is no condition.
        """
        if path.suffix != RULE_SUFFIX:
            raise PolicyError(f"expected a rule's file with the suffix {RULE_SUFFIX}, got {path}; rename it")
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise PolicyError(f"the rule {path} cannot be read: {error}; write one condition to a text file") from error
        return cls.parse(text, str(path))


class _Translation:
    """Translates a syntax tree to C, and makes its numbers floats; `columns` has the features' numbers by name."""

    def __init__(self, name: str) -> None:
        self.columns: dict[str, int] = {}
        self._name = name

    def condition(self, node: ast.expr) -> str:
        if isinstance(node, ast.BoolOp):
            sign = " && " if isinstance(node.op, ast.And) else " || "
            return f"({sign.join(map(self.condition, node.values))})"
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            return f"!{self.condition(node.operand)}"
        if isinstance(node, ast.Compare):
            values: Sequence[str] = [self._value(operand) for operand in (node.left, *node.comparators)]
            if not all(type(sign) in _COMPARISONS for sign in node.ops):
                raise self._misfit(node, "one of < <= > >= == !=")
            signs = [_COMPARISONS[type(sign)] for sign in node.ops]
            triples = zip(values[:-1], signs, values[1:], strict=True)
            return f"({' && '.join(' '.join(triple) for triple in triples)})"
        raise self._misfit(node, "a comparison, or several with and, or, not")

    def _value(self, node: ast.expr) -> str:
        if isinstance(node, ast.Name):
            return f"(double)features[{self.columns.setdefault(node.id, len(self.columns))}]"
        if isinstance(node, ast.Constant) and isinstance(node.value, int | float) and not isinstance(node.value, bool):
            node.value = float(node.value)
            return repr(node.value)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            return f"(-{self._value(node.operand)})"
        if isinstance(node, ast.BinOp) and type(node.op) in _SUMS:
            return f"({self._value(node.left)} {_SUMS[type(node.op)]} {self._value(node.right)})"
        raise self._misfit(node, "a feature, a number, or a sum or product of these")

    def _misfit(self, node: ast.expr, expected: str) -> PolicyError:
        return PolicyError(f"expected {expected} in {self._name}, got {ast.unparse(node)[:100]!r}")


def rule_policy(env: CompilerEnv, rule: RuleText, name: str) -> Rule:
    """Return the policy of a rule; `name` is for errors. Raises `PolicyError` if the environment lacks a feature."""
    check_advisor(name, env, INLINING)
    features = feature_vector(name, env, rule.features)
    return Rule(lambda observation, _info: int(rule(features(observation))))
