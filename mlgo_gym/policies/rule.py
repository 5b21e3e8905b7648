"""The policies `rule:FILE`: a file with the condition on features under which a call is inlined.

A rule file has one condition, which may span lines; `#` starts a comment:

    # Inline the last call of a function that the compiler may then drop.
    callee_last == 1 and callee_kept == 0 and 0 <= callee_linkage <= 1

A condition consists of names of features, numbers, `+ - *`, comparisons, `and`, `or`, `not` and parentheses, with the
precedence of Python. It is computed in double precision, so that exported C decides alike.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType

from mlgo_gym.env import CompilerEnv
from mlgo_gym.errors import PolicyError
from mlgo_gym.llvm.advisors import INLINING
from mlgo_gym.policies.features import check_advisor, check_binary, feature_vector
from mlgo_gym.policies.model_files import NETWORKS
from mlgo_gym.policies.normalization import Floats
from mlgo_gym.policies.protocol import Policy
from mlgo_gym.policies.rules import Rule

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
        return bool(eval(self._python, {"__builtins__": {}}, names))  # noqa: S307

    @classmethod
    def parse(cls, text: str, name: str) -> RuleText:
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


class _Translation:
    """Translates a syntax tree to C, and makes its numbers floats; `columns` has the features' numbers by name."""

    def __init__(self, name: str) -> None:
        self.columns: dict[str, int] = {}
        self._name = name

    def condition(self, node: ast.expr) -> str:
        """Return a condition as C, or raise a PolicyError."""
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


def load_rule(env: CompilerEnv, path: Path) -> Policy:
    """Return the policy of a rule's file, which inlines a call where the condition holds.

    Raises:
        PolicyError: the file has no condition, or the environment lacks a feature or has other decisions.
    """
    rule, name = RuleText.load(path), path.stem if path.parent == NETWORKS else f"rule:{path}"
    check_advisor(name, env, INLINING)
    check_binary(name, env)
    features = feature_vector(name, env, rule.features)
    return Rule(lambda observation, _info: int(rule(features(observation))))


def bundled_rules() -> tuple[str, ...]:
    """Return the names of the bundled rules."""
    return tuple(sorted(path.stem for path in NETWORKS.glob(f"*{RULE_SUFFIX}")))


def is_rule(spec: str) -> bool:
    """Return whether a policy is `rule:FILE` or a bundled rule."""
    return spec.startswith("rule:") or spec in bundled_rules()


def rule_file(spec: str) -> Path:
    """Return the file of `rule:FILE` or of a bundled rule."""
    _, colon, path = spec.partition(":")
    return Path(path).expanduser() if colon else NETWORKS / f"{spec}{RULE_SUFFIX}"
