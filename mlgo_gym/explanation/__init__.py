"""Why two policies make different code of a module, and what a policy listens to."""

from mlgo_gym.explanation.explanation import Explanation, explain_module

__all__ = ["Explanation", "explain_module"]
