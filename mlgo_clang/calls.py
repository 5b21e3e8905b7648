"""Policies that see which function is called, and what was decided before: `inline-oz-calls`, `calls:FILE`.

Which function a call is to, clang tells only beside the channel, in words that a build would see. So such a policy
decides on the module that the front end makes of the source, in another process, and clang then follows its answers.
"""

from __future__ import annotations

import subprocess
import sys

from mlgo_clang.policies import CALLS, PolicyError, network_file
from mlgo_clang.recipes import Recipe, front_end_bitcode

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


def decided(policy: str, clang: str, compiler: Sequence[str], rest: Sequence[str]) -> Recipe:
    """Return what such a policy decides about a source.

    Args:
        policy: as the user names it.
        clang: the compiler, as `mlgo-gym` takes it.
        compiler: the words that start clang.
        rest: the arguments of the compile.

    Raises:
        PolicyError: there is no such policy, it does not fit, or the source cannot be compiled.
    """
    network = policy.replace(CALLS, "mlp:", 1) if policy.startswith(CALLS) else policy
    network = f"mlp:{network_file(network, '')}"
    bitcode = front_end_bitcode(compiler, rest)
    process = [sys.executable, "-m", "mlgo_gym.deploy.policy_answers", clang, network, *compiler, *rest]
    result = subprocess.run(process, input=bitcode, capture_output=True, check=False)
    if result.returncode != 0:
        lines = result.stderr.decode(errors="replace").strip().splitlines()
        raise PolicyError(lines[-1] if lines else f"{policy} was to decide, and said nothing")
    return Recipe(result.stdout.decode().strip())
