"""Callee features: facts about the predicted callee of an inlining decision, and about earlier decisions.

Two facts often decide whether inlining one more call makes a module smaller: whether the callee is dropped after its
last call, and whether earlier calls of it were kept. Clang's own features contain neither.
`mlgo_gym.compiler.inlining_output` computes them.
"""

from collections.abc import Iterable, Mapping
from functools import lru_cache
from types import MappingProxyType

from mlgo_clang.protocol import CALLEE_SOURCES
from mlgo_gym.errors import ToolchainError
from mlgo_gym.llvm.training_log import LogHeader, TensorSpec

INTERNAL, DISCARDABLE, WEAK, AVAILABLE, EXTERNAL = range(5)
"""Kinds of linkage. A function of the first two kinds is dropped when nothing calls it."""


MODULE_SHARE = "module_share"
"""The only callee feature that is not a whole number."""

CALLEE_FEATURES: Mapping[str, str] = MappingProxyType(
    {
        "callee_linkage": "linkage of the callee: 0 internal, 1 linkonce, 2 weak, 3 available externally, 4 other",
        "callee_unnamed": "1 if the callee's address is insignificant (`unnamed_addr`), else 0",
        "callee_comdat": "1 if the callee is in a comdat group, which the linker merges, else 0",
        "caller_linkage": "linkage of the caller, coded as `callee_linkage`",
        "callee_lines": "instructions in the callee",
        "callee_calls": "calls among these instructions",
        "component_others": "other functions in the caller's component of the call graph",
        "component_visits": "earlier visits of the inliner to this component",
        "component_decisions": "earlier decisions in this visit",
        "callee_kept": "earlier calls of the callee that were kept",
        "callee_inlined": "earlier calls of the callee that were inlined",
        "callee_users_left": "users of the callee minus its kept calls",
        "callee_last": "1 if nothing else uses the callee, else 0",
        "caller_inlined": "earlier calls in the caller that were inlined",
        "caller_kept": "earlier calls in the caller that were kept",
        "pair_inlined": "earlier calls of this callee in this caller that were inlined",
        "pair_kept": "earlier calls of this callee in this caller that were kept",
        "callee_inner_inlined": "calls in the callee that were inlined",
        "callee_inner_kept": "calls in the callee that were kept",
        "module_decisions": "earlier decisions in the module",
        MODULE_SHARE: "earlier decisions in the module, divided by its functions",
        "callee_copies": "objects of the build that define the callee, from link facts, or 0",
        "callee_references": "references to the callee in the build, from link facts, or 0",
    }
)
"""Names and meanings, in the order of the observation. -1 means unknown."""


def uses_callee_features(features: Iterable[str]) -> bool:
    """Return whether some of the names are callee features."""
    return not set(CALLEE_FEATURES).isdisjoint(features)


@lru_cache(maxsize=64)
def with_callee_features(header: LogHeader) -> LogHeader:
    """Extend the header of an inlining channel by float32 tensors of shape (1,), or raise `ToolchainError`."""
    if missing := [name for name in CALLEE_SOURCES if name not in header.tensors]:
        raise ToolchainError(
            f"expected a clang with the features {', '.join(CALLEE_SOURCES)} for callee features, got one without "
            f"{', '.join(missing)}; use callee_features=False"
        )
    features = (*header.features, *(TensorSpec(name, "float", (1,)) for name in CALLEE_FEATURES))
    return LogHeader(features, header.advice)
