"""How to come to an evaluation's results again: its command, and everything that they depend on."""

from __future__ import annotations

import json
import shlex

from mlgo_gym.evaluation.configuration import Configuration
from mlgo_gym.evaluation.tables import levels
from mlgo_gym.evaluation.wording import count


def command_of(configuration: Configuration, output: str = "RESULTS") -> str:
    """Return the command that makes the same results; models are named as they were, by the paths of that machine."""
    words = ["mlgo-gym", "evaluate", configuration.environment, "--corpus", configuration.corpus]
    if configuration.split:
        words += ["--split", configuration.split]
    if configuration.limit is not None:
        words += ["--limit", str(configuration.limit)]
    for name in configuration.policies:
        words += ["--policy", name]
    words += ["--seed", str(configuration.seed)]
    for name, value in sorted(configuration.arguments.items()):
        words += ["--set", f"{name}={json.dumps(value)}"]
    return shlex.join([*words, "--output", output])


def facts_of(configuration: Configuration) -> list[tuple[str, str]]:
    """Return what the results depend on, as names and values."""
    rows = [
        ("compiler", f"clang {configuration.clang}"),
        ("mlgo-gym", configuration.mlgo_gym),
        ("environment", configuration.environment),
        ("arguments", json.dumps(dict(configuration.arguments)) if configuration.arguments else "none"),
        ("measure", configuration.metric),
        ("corpus", configuration.corpus.replace(",", ", ")),
        ("modules", f"{count(configuration.modules, 'module')} ({levels(configuration)})"),
        ("digest of modules and flags", configuration.modules_digest),
        ("seed", str(configuration.seed)),
    ]
    rows += [(f"policy {name}", identity) for name, identity in configuration.policies.items()]
    return rows
