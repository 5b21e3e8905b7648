"""Evaluation: policies on the modules of a corpus, results on disk, statistics, tables."""

from mlgo_gym.evaluation.evaluation import Evaluation, evaluate
from mlgo_gym.evaluation.result import EvaluationResult, load_result

__all__ = ["Evaluation", "EvaluationResult", "evaluate", "load_result"]
