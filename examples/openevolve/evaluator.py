"""The evaluator of OpenEvolve: compiles training modules under a program, and returns its score with words for the model.

OpenEvolve maximises `combined_score`: the negative change of the code's size, in per cent. A second stage judges
programs that are not bad on eight modules. `$MLGO_MODULES` is the number of modules of the second stage (64).
"""

import os

from openevolve.evaluation_result import EvaluationResult

from mlgo_gym import Score, score

FAILED = -100.0


def result(found: Score) -> EvaluationResult:
    """Return a score as OpenEvolve takes it."""
    metrics = {"combined_score": FAILED if found.error else -100 * found.value, "regressions": -len(found.regressions)}
    return EvaluationResult({name: float(value) for name, value in metrics.items()}, {"compiler": str(found)})


def evaluate_stage1(path: str) -> EvaluationResult:
    """Judge a program on eight modules."""
    with open(path, encoding="utf-8") as file:
        return result(score(file.read(), compiles=8, explain=False))


def evaluate_stage2(path: str) -> EvaluationResult:
    """Judge a program on all modules, and name its costly decisions."""
    return evaluate(path)


def evaluate(path: str) -> EvaluationResult:
    """Judge a program."""
    with open(path, encoding="utf-8") as file:
        return result(score(file.read(), compiles=int(os.environ.get("MLGO_MODULES", "64"))))
