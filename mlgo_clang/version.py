"""What `mlgo-clang --version` says: clang's own words and the policies in use, for tools that cache objects."""

from __future__ import annotations

import os
import sys

from mlgo_clang.policies import PolicyError, network_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from mlgo_clang.settings import Settings


def show_version(settings: Settings, command: Sequence[str]) -> int:
    """Run `clang --version`, add a line for each policy, and return clang's exit status.

    Args:
        settings: what the user wants.
        command: clang's whole command line.
    """
    status = os.waitstatus_to_exitcode(os.waitpid(os.posix_spawn(command[0], list(command), os.environ), 0)[1])
    described = [description for policy in settings.policies for description in _describe(policy, settings.levels)]
    lines = [f"mlgo-clang inlining policy: {description}" for description in described]
    if settings.eviction_policy != "default":
        described = _describe(settings.eviction_policy, settings.levels)
        lines += [f"mlgo-clang eviction policy: {description}" for description in described]
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    return status


def _describe(spec: str, levels: Sequence[str]) -> list[str]:
    import hashlib

    descriptions = []
    for level in levels if spec == "inline" else levels[:1]:
        try:
            path = network_file(spec, level)
            with open(path, "rb") as file:
                descriptions.append(f"{os.path.basename(path)} sha256:{hashlib.sha256(file.read()).hexdigest()}")
        except (PolicyError, OSError):
            descriptions.append(spec)
    return list(dict.fromkeys(descriptions))
