"""Traces of a policy with callee features: in a pass plugin, in the environment, and how far the two agree."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from mlgo_gym.compiler.coroutine import drive
from mlgo_gym.compiler.protocol.callee_features import CALLEE_FEATURES
from mlgo_gym.compiler.protocol.decision import Decision
from mlgo_gym.corpus.module import Module
from mlgo_gym.deploy.decision_code import DecisionCode
from mlgo_gym.env import CompilerEnv
from mlgo_gym.episode.attribution.inline_compile import InlineCompile, InlineDecision
from mlgo_gym.policies import Policy
from mlgo_gym.policies.normalization import Floats
from mlgo_gym.policies.session_policy import SessionPolicy

_LINE = re.compile(r"^mlgo: ([01])((?: \S+)+)$", re.MULTILINE)


def traced(code: DecisionCode) -> DecisionCode:
    """Return the code of a policy that prints its answers and the callee features to standard error."""
    features = (*code.features, *(name for name in CALLEE_FEATURES if name not in code.features))
    columns = ", ".join(str(features.index(name)) for name in CALLEE_FEATURES)
    printing = [
        "#include <stdio.h>",
        "static int mlgo_yes(const float *features) {",
        f"  static const int columns[] = {{{columns}}};",
        "  const int yes = mlgo_untraced(features);",
        '  fprintf(stderr, "mlgo: %d", yes);',
        f'  for (int i = 0; i < {len(CALLEE_FEATURES)}; ++i) fprintf(stderr, " %a", (double)features[columns[i]]);',
        '  fputs("\\n", stderr);',
        "  return yes;",
        "}",
        "",
    ]
    return replace(code, features=features, code=code.code.replace("mlgo_yes", "mlgo_untraced") + "\n".join(printing))


@dataclass(frozen=True, slots=True, eq=False)
class Traced:
    """A traced compile: its answers, the values of `CALLEE_FEATURES` at each decision, and the object."""

    answers: tuple[int, ...]
    seen: Floats
    object_bytes: bytes


def in_traced_plugin(command: Sequence[str], plugin: Path, output: Path) -> Traced:
    """Compile with a plugin of `traced()` code."""
    words = [*command, f"-fpass-plugin={plugin}", "-o", str(output)]
    output_text = subprocess.run(words, check=True, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True).stderr
    lines = _LINE.findall(output_text)
    seen = np.array([[float.fromhex(value) for value in values.split()] for _, values in lines], np.float32)
    answers = tuple(int(answer) for answer, _ in lines)
    return Traced(answers, seen.reshape(-1, len(CALLEE_FEATURES)), output.read_bytes())


def in_traced_environment(
    env: CompilerEnv, policy: Policy, module: Module
) -> tuple[Traced, tuple[InlineDecision, ...]]:
    """Compile over the interactive channel; return the trace, and the decisions with their predicted calls."""
    compilation = env.compilation(module)
    choose = SessionPolicy(env.task, policy, module.name)
    made: list[tuple[Decision, int]] = []

    def encoded(decision: Decision) -> bytes:
        answer = choose(decision)
        made.append((decision, answer))
        advice = env.task.encode(decision, answer)
        assert advice is not None
        return advice

    with compilation.session(env.task.advisors, contexts=True, callee_features=True) as session:
        compiled = drive(session, encoded, 120)
        assert session.contexts is not None
        remarks = session.contexts.remarks
    if not made:
        return Traced((), np.empty((0, len(CALLEE_FEATURES)), np.float32), compiled.object_bytes), ()
    placed = InlineCompile.from_session(made, remarks, compiled, env.task)
    tails = [decision.payload[-4 * len(CALLEE_FEATURES) :] for decision in placed.decisions]
    seen = np.frombuffer(b"".join(tails), "<f4").reshape(len(tails), -1)
    return Traced(placed.answers, seen, compiled.object_bytes), placed.decisions


@dataclass(frozen=True, slots=True)
class Agreement:
    """Agreement of two compiles of a module, up to the first decision that differs, which is `None` if all are equal.

    `predicted` of the `compared` decisions had a correctly predicted callee; `features_differ` are those of them at
    which a feature differs.
    """

    compared: int
    predicted: int
    features_differ: tuple[int, ...]
    first: int | None = None
    first_predicted: str = ""
    first_callee: str = ""

    @property
    def explained(self) -> bool:
        """Whether wrong predictions explain all differences."""
        return not self.features_differ and (self.first is None or self.first_predicted != self.first_callee)


def agreement(plugin: Traced, environment: Traced, decisions: Sequence[InlineDecision]) -> Agreement:
    """Compare a compile with the plugin and one in the environment."""
    pairs = zip(plugin.answers, environment.answers, strict=False)
    first = next((number for number, (one, other) in enumerate(pairs) if one != other), None)
    assert first is not None or len(plugin.answers) == len(environment.answers), "equal answers, equal decisions"
    compared = len(decisions) if first is None else first + 1
    correct = [number for number, each in enumerate(decisions[:compared]) if each.predicted_callee == each.callee]
    differ = [number for number in correct if not np.array_equal(plugin.seen[number], environment.seen[number])]
    if first is None:
        return Agreement(compared, len(correct), tuple(differ))
    predicted, callee = decisions[first].predicted_callee or "", decisions[first].callee
    return Agreement(compared, len(correct), tuple(differ), first, predicted, callee)
