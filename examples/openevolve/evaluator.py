"""The evaluator of OpenEvolve: compiles training modules under a program, and returns its score in numbers and words.

OpenEvolve maximises `combined_score`: the negative change of the code's size, in per cent. A second stage judges
programs that are not bad on eight modules. `$MLGO_MODULES` is the number of modules of the second stage (64).
"""

import os
from pathlib import Path

from openevolve.evaluation_result import EvaluationResult

from mlgo_gym import score

FAILED = -100.0


def judge(path: str, modules: int, *, explain: bool) -> EvaluationResult:
    """Judge a program on a number of modules."""
    found = score(Path(path).read_text(encoding="utf-8"), compiles=modules, explain=explain)
    metrics = {"combined_score": FAILED if found.error else -100 * found.value, "regressions": -len(found.regressions)}
    return EvaluationResult({name: float(value) for name, value in metrics.items()}, {"compiler": str(found)})


def evaluate_stage1(path: str) -> EvaluationResult:
    """Judge a program on eight modules."""
    return judge(path, 8, explain=False)


def evaluate_stage2(path: str) -> EvaluationResult:
    """Judge a program on all modules, and name its costly decisions."""
    return evaluate(path)


def evaluate(path: str) -> EvaluationResult:
    """Judge a program."""
    return judge(path, int(os.environ.get("MLGO_MODULES", "64")), explain=True)
