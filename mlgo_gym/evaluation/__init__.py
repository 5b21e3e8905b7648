"""Evaluation: policies against the modules of a corpus, their results on disk, and what they add up to."""

from mlgo_gym.evaluation.evaluation import Evaluation, evaluate
from mlgo_gym.evaluation.result import EvaluationResult, load_result

__all__ = ["Evaluation", "EvaluationResult", "evaluate", "load_result"]
