"""Gymnasium environments in which an agent makes the optimisation decisions of a stock, released clang.

Importing this package registers the environments in `ENVIRONMENTS`. The other public names are imported at first use:
`import mlgo_gym` stays fast.
"""

from importlib import import_module as _import_module
from typing import TYPE_CHECKING, Any

import gymnasium as _gymnasium

if TYPE_CHECKING:
    from mlgo_gym.compiler.callee_features import CALLEE_FEATURES as CALLEE_FEATURES
    from mlgo_gym.compiler.decision import DecisionSite as DecisionSite
    from mlgo_gym.corpus import Corpus as Corpus
    from mlgo_gym.corpus import open_corpus as open_corpus
    from mlgo_gym.env import CompilerEnv as CompilerEnv
    from mlgo_gym.errors import ActionError as ActionError
    from mlgo_gym.errors import CompilerError as CompilerError
    from mlgo_gym.errors import CorpusError as CorpusError
    from mlgo_gym.errors import MlgoError as MlgoError
    from mlgo_gym.evaluation import EvaluationResult as EvaluationResult
    from mlgo_gym.evaluation import evaluate as evaluate
    from mlgo_gym.evaluation import load_result as load_result
    from mlgo_gym.evaluation.explanation import explain_module as explain_module
    from mlgo_gym.evaluation.scoring import Score as Score
    from mlgo_gym.evaluation.scoring import score as score
    from mlgo_gym.integrations import NormalizeFeatures as NormalizeFeatures
    from mlgo_gym.policies import Policy as Policy
    from mlgo_gym.policies import load_policy as load_policy
    from mlgo_gym.policies.network import Network as Network
    from mlgo_gym.scheduling import Execution as Execution
    from mlgo_gym.search import search_module as search_module
    from mlgo_gym.training import BestCheckpoint as BestCheckpoint
    from mlgo_gym.training import Labelling as Labelling
    from mlgo_gym.training import read_labels as read_labels
    from mlgo_gym.training import with_margin as with_margin
    from mlgo_gym.vector_env import CompilerVectorEnv as CompilerVectorEnv
    from mlgo_gym.vector_env import as_vector as as_vector

__version__ = "0.1.0"

ENVIRONMENTS = {
    "mlgo/Inline-v0": "mlgo_gym.envs.inline:Inline",
    "mlgo/InlineBandit-v0": "mlgo_gym.training.bandit:InlineBandit",
    "mlgo/InlineIR2Vec-v0": "mlgo_gym.envs.inline_ir2vec:InlineIR2Vec",
    "mlgo/Joint-v0": "mlgo_gym.envs.joint:Joint",
    "mlgo/RegAllocEvict-v0": "mlgo_gym.envs.regalloc_evict:RegAllocEvict",
    "mlgo/RegAllocPriority-v0": "mlgo_gym.envs.regalloc_priority:RegAllocPriority",
}
"""The environments by id: the module and the prefix of their two classes, `Env` and `VectorEnv`."""

APPROXIMATIONS = {"mlgo/InlineBandit-v0": "mlgo/Inline-v0"}
"""The environments that run no compiler, and the environments that they approximate."""

_NAMES = {
    "compiler.callee_features": ["CALLEE_FEATURES"],
    "compiler.decision": ["DecisionSite"],
    "corpus": ["Corpus", "open_corpus"],
    "env": ["CompilerEnv"],
    "errors": ["ActionError", "CompilerError", "CorpusError", "MlgoError"],
    "evaluation": ["EvaluationResult", "evaluate", "load_result"],
    "evaluation.explanation": ["explain_module"],
    "evaluation.scoring": ["Score", "score"],
    "integrations": ["NormalizeFeatures"],
    "policies": ["Policy", "load_policy"],
    "policies.network": ["Network"],
    "scheduling": ["Execution"],
    "search": ["search_module"],
    "training": ["BestCheckpoint", "Labelling", "read_labels", "with_margin"],
    "vector_env": ["CompilerVectorEnv", "as_vector"],
}
"""The other public names by module, relative to this package."""

_MODULES = {name: module for module, names in _NAMES.items() for name in names}

__all__ = ["ENVIRONMENTS", *_MODULES]

for _id, _stem in ENVIRONMENTS.items():
    if _id not in _gymnasium.registry:
        # Gymnasium's passive checker remembers a reset that raised as one, and would refuse every later step.
        _gymnasium.register(
            id=_id, entry_point=f"{_stem}Env", vector_entry_point=f"{_stem}VectorEnv", disable_env_checker=True
        )


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(_import_module(f"{__name__}.{_MODULES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULES})
