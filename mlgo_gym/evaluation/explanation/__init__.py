"""Explanations: why two policies make different code of a module, and which features a policy depends on."""

from mlgo_gym.evaluation.explanation.explanation import Explanation, explain_module

__all__ = ["Explanation", "explain_module"]
