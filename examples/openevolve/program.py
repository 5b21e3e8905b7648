"""The program that OpenEvolve improves: a heuristic of inlining for code size, at -Oz."""


# EVOLVE-BLOCK-START
def inline(features: dict[str, float]) -> bool:
    """Return whether a call is inlined; `features` has LLVM's numbers and the callee features by name."""
    return features["cost_estimate"] < 5


# EVOLVE-BLOCK-END
