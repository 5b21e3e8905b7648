"""Which network a policy is, as the driver looks for it too."""

from __future__ import annotations

from pathlib import Path

from mlgo_clang.policies import PolicyError as NoPolicyError
from mlgo_clang.policies import network_file
from mlgo_gym.errors import PolicyError
from mlgo_gym.policies.calls import sees_calls
from mlgo_gym.policies.network import Network

_RULES = ("default", "never", "always", "threshold")


def network_path(policy: str) -> Path | None:
    """Return the file of a policy's network; None for a rule.

    Args:
        policy: a policy in the box, `mlp:FILE`, or a rule.

    Raises:
        PolicyError: there is no such policy, or no such file; or its network sees more than clang's features.
    """
    if policy.partition(":")[0] in _RULES:
        return None
    try:
        path = Path(network_file(policy, "z"))
    except NoPolicyError as error:
        raise PolicyError(str(error)) from None
    if sees_calls(Network.load(path)):
        raise PolicyError(
            f"a network of clang's own features was wanted, and {policy} also sees which function is called and what "
            "was decided before, which only environments with calls=True follow: name another"
        )
    return path


def exported_network(policy: str) -> Network:
    """Return a policy's network.

    Args:
        policy: a policy in the box, or `mlp:FILE`.

    Raises:
        PolicyError: there is no such policy, it is a rule, its file is no network, or one that sees more than clang's
            features.
    """
    path = network_path(policy)
    if path is None:
        raise PolicyError(f"a network was wanted, and {policy} is a rule; name a policy in the box, or mlp:FILE")
    return Network.load(path)
