"""What a policy that sees calls is shown inside clang, decision by decision, against what the environment foretells."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from mlgo_gym.corpus.module import Module
from mlgo_gym.deploy.decision_code import DecisionCode
from mlgo_gym.env import CompilerEnv
from mlgo_gym.episode.placed_compile import PlacedDecision, place
from mlgo_gym.policies import Policy
from mlgo_gym.policies.answers import Answers
from mlgo_gym.policies.call_features import CALL_FEATURES, features_of_calls
from mlgo_gym.policies.normalization import Floats
from mlgo_gym.session.decision import Decision
from mlgo_gym.session.session import Session

_LINE = re.compile(r"^mlgo: ([01])((?: \S+)+)$", re.MULTILINE)


def traced(code: DecisionCode) -> DecisionCode:
    """Return the code of a policy that says on standard error what it sees of each call, and what it answers."""
    features = (*code.features, *(name for name in CALL_FEATURES if name not in code.features))
    columns = ", ".join(str(features.index(name)) for name in CALL_FEATURES)
    speaking = [
        "#include <stdio.h>",
        "static int mlgo_yes(const float *features) {",
        f"  static const int columns[] = {{{columns}}};",
        "  const int yes = mlgo_untraced(features);",
        '  fprintf(stderr, "mlgo: %d", yes);',
        f'  for (int i = 0; i < {len(CALL_FEATURES)}; ++i) fprintf(stderr, " %a", (double)features[columns[i]]);',
        '  fputs("\\n", stderr);',
        "  return yes;",
        "}",
        "",
    ]
    return replace(code, features=features, code=code.code.replace("mlgo_yes", "mlgo_untraced") + "\n".join(speaking))


@dataclass(frozen=True, slots=True, eq=False)
class Traced:
    """A compile whose decisions were noted.

    Attributes:
        answers: one for each decision: 1 is to inline.
        seen: the values of `CALL_FEATURES` at each, float32 of shape (decisions, 21).
        object_bytes: the object.
    """

    answers: tuple[int, ...]
    seen: Floats
    object_bytes: bytes


def in_traced_plugin(command: Sequence[str], plugin: Path, output: Path) -> Traced:
    """Compile with a plugin of `traced()` code.

    Args:
        command: the compile.
        plugin: the plugin.
        output: where the object goes.

    Raises:
        CalledProcessError: the compile failed.
    """
    words = [*command, f"-fpass-plugin={plugin}", "-o", str(output)]
    said = subprocess.run(words, check=True, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True).stderr
    lines = _LINE.findall(said)
    seen = np.array([[float.fromhex(value) for value in values.split()] for _, values in lines], np.float32)
    answers = tuple(int(answer) for answer, _ in lines)
    return Traced(answers, seen.reshape(-1, len(CALL_FEATURES)), output.read_bytes())


def in_traced_environment(
    env: CompilerEnv, policy: Policy, module: Module
) -> tuple[Traced, tuple[PlacedDecision, ...]]:
    """Compile over the interactive channel, and return the decisions as well, with what was foretold of each.

    Args:
        env: an environment with `calls=True`.
        policy: what decides; it may see calls.
        module: what is compiled.
    """
    compilation = env.compilation(module)
    choose = Answers(env.task, policy, module.name)
    made: list[tuple[Decision, int]] = []
    with Session(
        *(compilation.command, env.task.advisors),
        confined=compilation.confined,
        limits=compilation.limits,
        contexts=True,
        foretell=True,
    ) as session:
        while (decision := session.wait(120)) is not None:
            answer = choose(decision)
            made.append((decision, answer))
            advice = env.task.encode(decision, answer)
            assert advice is not None
            session.advise(advice)
        compiled = session.finish(120)
        assert session.contexts is not None
        remarks = session.contexts.remarks
    if not made:
        return Traced((), np.empty((0, len(CALL_FEATURES)), np.float32), compiled.object_bytes), ()
    placed = place(made, remarks, compiled, env.task)
    seen = features_of_calls(placed.decisions, env.task.headers[0].dtype)
    return Traced(placed.answers, seen, compiled.object_bytes), placed.decisions


@dataclass(frozen=True, slots=True)
class Agreement:
    """How far two compiles of a module agree, until they decide differently.

    Attributes:
        compared: decisions until then, with the one that differs.
        foretold: those of them whose callee the environment foretold rightly.
        seen_otherwise: those of these at which the plugin saw another value of some feature.
        first: the number of the first decision that differs; None if none does.
        first_foretold: the callee that the environment foretold there.
        first_callee: the callee that clang named afterwards.
    """

    compared: int
    foretold: int
    seen_otherwise: tuple[int, ...]
    first: int | None = None
    first_foretold: str = ""
    first_callee: str = ""

    @property
    def explained(self) -> bool:
        """Whether wrongly foretold callees are all that is different."""
        return not self.seen_otherwise and (self.first is None or self.first_foretold != self.first_callee)


def agreement(plugin: Traced, environment: Traced, decisions: Sequence[PlacedDecision]) -> Agreement:
    """Compare a compile with the plugin with one in the environment."""
    pairs = zip(plugin.answers, environment.answers, strict=False)
    first = next((number for number, (ours, theirs) in enumerate(pairs) if ours != theirs), None)
    assert first is not None or len(plugin.answers) == len(environment.answers), "who answers alike is asked alike"
    compared = len(decisions) if first is None else first + 1
    right = [number for number in range(compared) if _rightly_foretold(decisions[number])]
    otherwise = [number for number in right if not np.array_equal(plugin.seen[number], environment.seen[number])]
    if first is None:
        return Agreement(compared, len(right), tuple(otherwise))
    foretold, callee = _foretold(decisions[first]), decisions[first].callee
    return Agreement(compared, len(right), tuple(otherwise), first, foretold, callee)


def _foretold(decision: PlacedDecision) -> str:
    assert decision.call is not None, "the environment foretells calls"
    return decision.call.callee


def _rightly_foretold(decision: PlacedDecision) -> bool:
    return _foretold(decision) == decision.callee
