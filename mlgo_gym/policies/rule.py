"""The policies `rule:FILE`: a file with the condition on features under which a call is inlined.

A rule file has one condition, which may span lines; `#` starts a comment:

    # Inline the last call of a function that the compiler may then drop.
    callee_last == 1 and callee_kept == 0 and 0 <= callee_linkage <= 1

A condition consists of names of features, numbers, `+ - *`, comparisons, `and`, `or`, `not` and parentheses, with the
precedence of Python. It is computed in double precision, so that exported C decides alike.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mlgo_gym.env import CompilerEnv
from mlgo_gym.errors import PolicyError
from mlgo_gym.llvm.advisors import INLINING
from mlgo_gym.policies.features import check_advisor, check_binary, feature_vector
from mlgo_gym.policies.normalization import Floats
from mlgo_gym.policies.protocol import row

_FOLDER = Path(__file__).with_name("networks")
RULE_SUFFIX = ".rule"

Value = Callable[[Sequence[float]], float]

_COMPARISONS: dict[type[ast.cmpop], tuple[Callable[[float, float], bool], str]] = {
    ast.Lt: (operator.lt, "<"),
    ast.LtE: (operator.le, "<="),
    ast.Gt: (operator.gt, ">"),
    ast.GtE: (operator.ge, ">="),
    ast.Eq: (operator.eq, "=="),
    ast.NotEq: (operator.ne, "!="),
}
_SUMS: dict[type[ast.operator], tuple[Callable[[float, float], float], str]] = {
    ast.Add: (operator.add, "+"),
    ast.Sub: (operator.sub, "-"),
    ast.Mult: (operator.mul, "*"),
}


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
    _holds: Callable[[Sequence[float]], bool] = field(repr=False, compare=False)

    def __call__(self, values: Floats) -> bool:
        """Return whether the condition holds for raw features, float32 of shape (features,)."""
        return self._holds(values.tolist())

    @classmethod
    def parse(cls, text: str, name: str) -> RuleText:
        """Return the rule of a file's contents; `name` is for errors.

        Raises:
            PolicyError: the text is no condition.
        """
        lines = [line.partition("#")[0].strip() for line in text.splitlines()]
        condition = " ".join(filter(None, lines))
        parser = _Parser(name)
        try:
            tree = ast.parse(f"({condition})", mode="eval").body
            holds, code = parser.condition(tree)
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            raise PolicyError(f"expected a condition in {name}, got {condition[:100]!r}: {error}") from None
        return cls(condition, tuple(parser.columns), code, holds)

    @classmethod
    def load(cls, path: Path) -> RuleText:
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


class _Parser:
    """Translates a syntax tree to a function and to C; `columns` has the features' numbers by name."""

    def __init__(self, name: str) -> None:
        self.columns: dict[str, int] = {}
        self._name = name

    def condition(self, node: ast.expr) -> tuple[Callable[[Sequence[float]], bool], str]:
        """Return a condition as a function of the features, and as C."""
        if isinstance(node, ast.BoolOp):
            parts = [self.condition(value) for value in node.values]
            tests = [test for test, _ in parts]
            combine, sign = (all, " && ") if isinstance(node.op, ast.And) else (any, " || ")
            return lambda values: combine(test(values) for test in tests), f"({sign.join(code for _, code in parts)})"
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            negated, code = self.condition(node.operand)
            return lambda values: not negated(values), f"!{code}"
        if isinstance(node, ast.Compare):
            return self._comparison(node)
        raise self._misfit(node, "a comparison, or several with and, or, not")

    def _comparison(self, node: ast.Compare) -> tuple[Callable[[Sequence[float]], bool], str]:
        operands = [self._value(operand) for operand in (node.left, *node.comparators)]
        pairs = []
        codes = []
        for sign, (left, left_code), (right, right_code) in zip(node.ops, operands[:-1], operands[1:], strict=True):
            if type(sign) not in _COMPARISONS:
                raise self._misfit(node, "one of < <= > >= == !=")
            compare, code = _COMPARISONS[type(sign)]
            pairs.append((compare, left, right))
            codes.append(f"{left_code} {code} {right_code}")
        text = f"({' && '.join(codes)})"
        if len(pairs) == 1:
            compare, left, right = pairs[0]
            return lambda values: compare(left(values), right(values)), text
        return lambda values: all(compare(left(values), right(values)) for compare, left, right in pairs), text

    def _value(self, node: ast.expr) -> tuple[Value, str]:
        if isinstance(node, ast.Name):
            column = self.columns.setdefault(node.id, len(self.columns))
            return operator.itemgetter(column), f"(double)features[{column}]"
        if isinstance(node, ast.Constant) and isinstance(node.value, int | float) and not isinstance(node.value, bool):
            number = float(node.value)
            return lambda _values: number, repr(number)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            inner, code = self._value(node.operand)
            return lambda values: -inner(values), f"(-{code})"
        if isinstance(node, ast.BinOp) and type(node.op) in _SUMS:
            compute, sign = _SUMS[type(node.op)]
            (left, left_code), (right, right_code) = self._value(node.left), self._value(node.right)
            return lambda values: compute(left(values), right(values)), f"({left_code} {sign} {right_code})"
        raise self._misfit(node, "a feature, a number, or a sum or product of these")

    def _misfit(self, node: ast.expr, expected: str) -> PolicyError:
        return PolicyError(f"expected {expected} in {self._name}, got {ast.unparse(node)[:100]!r}")


class RulePolicy:
    """Inlines a call where the condition of a rule holds; its features are found by name.

    Args:
        env: an environment of inlining, with observations of any form.
        rule: the rule.
        name: the policy's name, for errors.

    Raises:
        PolicyError: the environment lacks a feature, or has other decisions.
    """

    def __init__(self, env: CompilerEnv, rule: RuleText, name: str) -> None:
        check_advisor(name, env, INLINING)
        check_binary(name, env)
        self._rule = rule
        self._features = feature_vector(name, env, rule.features)

    def act(self, observation: Any, info: Mapping[str, Any]) -> int:
        """Return 1 where the condition holds, else 0."""
        del info
        return int(self._rule(self._features(observation)))

    def act_batch(self, observations: Any, infos: Sequence[Mapping[str, Any]]) -> list[int]:
        """Return the choice at each decision."""
        return [self.act(row(observations, number), info) for number, info in enumerate(infos)]


def load_rule(env: CompilerEnv, path: Path) -> RulePolicy:
    """Return the policy of a rule's file.

    Raises:
        PolicyError: the file has no condition, or the rule does not fit the environment.
    """
    return RulePolicy(env, RuleText.load(path), path.stem if path.parent == _FOLDER else f"rule:{path}")


def bundled_rules() -> tuple[str, ...]:
    """Return the names of the bundled rules."""
    return tuple(sorted(path.stem for path in _FOLDER.glob(f"*{RULE_SUFFIX}")))


def is_rule(spec: str) -> bool:
    """Return whether a policy is `rule:FILE` or a bundled rule."""
    return spec.startswith("rule:") or spec in bundled_rules()


def rule_file(spec: str) -> Path:
    """Return the file of `rule:FILE` or of a bundled rule."""
    _, colon, path = spec.partition(":")
    return Path(path).expanduser() if colon else _FOLDER / f"{spec}{RULE_SUFFIX}"
