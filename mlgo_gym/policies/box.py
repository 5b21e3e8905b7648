"""The policies in the box: trained networks that come with the package, such as `inline-oz`.

Each network is three files of `mlgo_gym/policies/box/`: the network (`NAME.safetensors`), and its model card for people
(`NAME.md`) and for programs (`NAME.json`). What is in the folder is what there is: a network that is put there can be
used at once.

Where there are two for one purpose, `NAME-calls`, which sees which function is called, and `NAME-plain`, which sees
clang's features alone, `NAME` is the first where calls are foretold, and the second elsewhere. Whoever makes an
environment for it, as the commands do, has calls foretold.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mlgo_gym.env import CompilerEnv
from mlgo_gym.errors import PolicyError
from mlgo_gym.llvm.advisors import INLINING
from mlgo_gym.policies.call_features import CALL_FEATURES
from mlgo_gym.policies.calls import CallsPolicy, sees_calls
from mlgo_gym.policies.fitting import check_advisor, check_yes_or_no, misfit
from mlgo_gym.policies.mlp import MlpPolicy
from mlgo_gym.policies.network import Network

BOX = Path(__file__).with_name("box")
"""The folder of the networks."""

_INLINING = "inline-"

_CALLS = "-calls"
_PLAIN = "-plain"


def boxed_policies() -> tuple[str, ...]:
    """Return the names of the policies in the box."""
    networks = [path.stem for path in BOX.glob("*.safetensors")]
    return tuple(sorted({*networks, *(name.removesuffix(_CALLS).removesuffix(_PLAIN) for name in networks)}))


def box_file(name: str, *, calls: bool) -> Path:
    """Return the network's file of a policy in the box.

    Args:
        name: one of `boxed_policies()`.
        calls: whether calls are foretold, so that of two networks it is the one that sees them.

    Raises:
        PolicyError: there is no such policy in the box.
    """
    if name not in boxed_policies():
        raise PolicyError(f"the policy {name!r} is not in the box; there are {', '.join(boxed_policies()) or 'none'}")
    endings = ("", _CALLS, _PLAIN) if calls else ("", _PLAIN, _CALLS)
    return next(file for ending in endings if (file := BOX / f"{name}{ending}.safetensors").exists())


class BoxedPolicy:
    """A network from the box, in an environment that asks what it was trained to answer.

    Args:
        env: the environment, with observations of any form.
        name: one of `boxed_policies()`.
        network: its network, which fits the environment.

    Attributes:
        name: as given.
    """

    def __init__(self, env: CompilerEnv, name: str, network: Network) -> None:
        self.name = name
        self._policy = MlpPolicy(env, network)

    def act(self, observation: Any, info: Mapping[str, Any]) -> Any:
        """Return the network's choice, an element of the action space."""
        return self._policy.act(observation, info)

    def act_batch(self, observations: Any, infos: Sequence[Mapping[str, Any]]) -> list[Any]:
        """Return the network's choice at each decision, bit for bit that of `act()`."""
        return self._policy.act_batch(observations, infos)

    def logits(self, observations: Any) -> np.ndarray[Any, np.dtype[np.float32]]:
        """Return how much the network prefers yes to no; see `MlpPolicy.logits()`."""
        return self._policy.logits(observations)


def boxed_policy(env: CompilerEnv, name: str) -> BoxedPolicy | CallsPolicy:
    """Return a policy from the box, by what its network sees.

    Raises:
        PolicyError: there is no such policy, the environment asks about other decisions, its compiler lacks features
            that the network knows, or the only such network sees calls, and the environment foretells none.
    """
    network = _fitting_network(env, name)
    return CallsPolicy(env, network) if sees_calls(network) else BoxedPolicy(env, name, network)


def _fitting_network(env: CompilerEnv, name: str) -> Network:
    network = Network.load(box_file(name, calls=env.setup.settings.calls))
    if name.startswith(_INLINING):
        check_advisor(name, env, INLINING)
        check_yes_or_no(name, env)
    given = (*env.feature_names, *CALL_FEATURES)
    missing = [feature for feature in network.features if feature not in given]
    if missing:
        raise misfit(
            name,
            f"the features {', '.join(missing)} among others",
            f"the {len(env.feature_names)} features of clang {env.toolchain.version_text}; it was "
            "trained with the bundled clang 22.1.8, and clang has these features from 19 on",
        )
    return network
