"""Exports: the policy that an export target takes, the decision that replaces clang's own, and the file."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from mlgo_gym.cache import write_atomically
from mlgo_gym.compiler.callee_features import uses_callee_features
from mlgo_gym.errors import MlgoError, PolicyError
from mlgo_gym.llvm.advisors import INLINING_DEFAULT
from mlgo_gym.policies.loading import is_rule, policy_file
from mlgo_gym.policies.network import Network

THRESHOLDS = {"Oz": 5, "Os": 50}
"""`OptMinSizeThreshold` and `OptSizeThreshold` of llvm/Analysis/InlineCost.h.

In the bundled labels the replacement differs from clang's decision 23 times of 49,199 at -Oz, where a
nested call changed the cost. At -Os it differs 3,174 times of 62,525, since functions declared inline have another
threshold that no feature contains.
"""

COST = "cost_estimate"
"""The feature that replaces clang's own decision, in LLVM's cost units."""

_RULES = ("default", "never", "always", "threshold")


def policy_network(policy: str) -> Network | None:
    """Return the network of `mlp:FILE`; None for a rule.

    Raises `PolicyError` if there is no such policy, or its file is no network.
    """
    kind, colon, _ = policy.partition(":")
    if kind in _RULES or is_rule(policy):
        return None
    if colon and kind != "mlp":
        raise PolicyError(f"expected a rule, rule:FILE, mlp:FILE or a bundled policy, got {policy!r}")
    return Network.load(policy_file(policy))


def check_features(policy: str, features: Sequence[str]) -> None:
    """Raise a PolicyError if a policy needs callee features, for a target that does not compute them."""
    if uses_callee_features(features):
        raise PolicyError(
            f"{policy} needs callee features, which LLVM does not compute; export it with `mlgo-gym export plugin`, or "
            "train a network without them: mlgo-gym train policy"
        )


def exported_network(policy: str) -> Network:
    """Return the network of a policy for a target in which LLVM computes the inputs; raise `PolicyError` for a rule."""
    network = policy_network(policy)
    if network is None:
        raise PolicyError(f"expected a network, got the rule {policy!r}; use mlp:FILE")
    check_features(policy, network.features)
    return network


def default_threshold(policy: str, features: Sequence[str], level: str | None = None) -> int | None:
    """Return the threshold of `COST` that replaces `inlining_default`; None if a policy does not use the feature.

    The interactive channel has that feature. Release mode does not. Development mode has an input of that name that
    stays 0 (MLInlineAdvisor.cpp and DevelopmentModeInlineAdvisor.cpp of llvm/lib/Analysis). Raises `PolicyError` if the
    policy uses the feature, and the level is neither `Oz` nor `Os`.
    """
    if level is not None and level not in THRESHOLDS:
        raise PolicyError(f"expected a level of {', '.join(THRESHOLDS)}, got {level!r}")
    if INLINING_DEFAULT not in features:
        return None
    if level is None:
        raise PolicyError(
            f"{policy} uses {INLINING_DEFAULT}, which LLVM computes in neither release nor development mode; replace "
            "it by the estimated cost with --level Oz or --level Os, or train a policy without it, as "
            "examples/sb3_ppo.py does"
        )
    return THRESHOLDS[level]


def replacement_text(threshold: int) -> str:
    """Return a sentence about the replacement of `inlining_default`."""
    return f"{INLINING_DEFAULT} is replaced by {COST} < {threshold}"


@contextmanager
def writing(output: Path) -> Iterator[None]:
    """Raise an OSError of the block as the `MlgoError` of an export to `output`."""
    try:
        yield
    except OSError as error:
        raise MlgoError(f"the export to {output} failed: {error}; choose another path") from error


def write_export(output: Path, data: bytes) -> None:
    """Write an exported file, all of it or nothing, or raise an MlgoError."""
    with writing(output):
        write_atomically(output, data)
