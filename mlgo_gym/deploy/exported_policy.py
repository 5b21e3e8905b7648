"""Which network a policy is, by where it goes."""

from __future__ import annotations

from pathlib import Path

from mlgo_clang.policies import PolicyError as NoPolicyError
from mlgo_clang.policies import network_file
from mlgo_gym.errors import PolicyError
from mlgo_gym.policies.box import box_file, boxed_policies
from mlgo_gym.policies.calls import sees_calls
from mlgo_gym.policies.network import Network

_RULES = ("default", "never", "always", "threshold")


def network_path(policy: str, *, calls: bool = False) -> Path | None:
    """Return the file of a policy's network; None for a rule.

    Args:
        policy: a policy in the box, `mlp:FILE`, or a rule.
        calls: whether calls are followed where it goes: of two networks in the box it is the one that sees them.

    Raises:
        PolicyError: there is no such policy, or no such file; or its network sees calls where nobody follows them.
    """
    if policy.partition(":")[0] in _RULES:
        return None
    if policy in boxed_policies():
        path = box_file(policy, calls=calls)
    else:
        try:
            path = Path(network_file(policy, "z"))
        except NoPolicyError as error:
            raise PolicyError(str(error)) from None
    if not calls and sees_calls(Network.load(path)):
        raise PolicyError(
            f"a network of clang's own features was wanted, since LLVM itself computes the inputs there, and {policy} "
            "also sees which function is called and what was decided before; make a plugin of it (mlgo-gym export "
            "plugin), which follows calls, or name another"
        )
    return path


def exported_network(policy: str) -> Network:
    """Return a policy's network, for where LLVM itself computes the inputs.

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
