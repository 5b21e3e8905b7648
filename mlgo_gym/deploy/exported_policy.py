"""Which network a policy is, as the driver looks for it too."""

from __future__ import annotations

from pathlib import Path

from mlgo_clang.policies import PolicyError as NoPolicyError
from mlgo_clang.policies import network_file
from mlgo_gym.errors import PolicyError
from mlgo_gym.policies.network import Network

_RULES = ("default", "never", "always", "threshold")


def network_path(policy: str) -> Path | None:
    """Return the file of a policy's network; None for a rule.

    Args:
        policy: a policy in the box, `mlp:FILE`, or a rule.

    Raises:
        PolicyError: there is no such policy, or no such file.
    """
    if policy.partition(":")[0] in _RULES:
        return None
    try:
        return Path(network_file(policy, "z"))
    except NoPolicyError as error:
        raise PolicyError(str(error)) from None


def exported_network(policy: str) -> Network:
    """Return a policy's network.

    Args:
        policy: a policy in the box, or `mlp:FILE`.

    Raises:
        PolicyError: there is no such policy, it is a rule, or its file is no network.
    """
    path = network_path(policy)
    if path is None:
        raise PolicyError(f"a network was wanted, and {policy} is a rule; name a policy in the box, or mlp:FILE")
    return Network.load(path)
