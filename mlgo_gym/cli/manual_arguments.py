"""The tables of the manual pages that an environment's own object fills: its arguments, and what `info` says."""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from mlgo_gym.env import CompilerEnv
from mlgo_gym.episode.options import Settings
from mlgo_gym.tasks.info_reference import info_keys

_RULE = "|---|---|---|"


class Argument(NamedTuple):
    """An argument of an environment.

    Attributes:
        name: its name.
        default: what holds where it is not given.
        meaning: what it does.
    """

    name: str
    default: Any
    meaning: str


def arguments(env: CompilerEnv) -> list[Argument]:
    """Return all arguments of an environment, its own first.

    Args:
        env: one that was made with no arguments but the compiler.
    """
    own = inspect.signature(type(env)).parameters.items()
    found = [
        Argument(name, parameter.default, env.task.arguments[name])
        for name, parameter in own
        if name in env.task.arguments
    ]
    defaults = {field.name: field.default for field in dataclasses.fields(Settings)}
    defaults["reward"] = env.setup.settings.reward
    return [*found, *(Argument(name, defaults[name], meaning) for name, meaning in shared_arguments())]


def argument_table(env: CompilerEnv) -> str:
    """Return all arguments of an environment, with the defaults that hold for it, as a Markdown table.

    Args:
        env: one that was made with no arguments but the compiler.
    """
    rows = ["| argument | default | meaning |", _RULE, *(_row(*each) for each in arguments(env))]
    metrics = ", ".join(f'`"{metric}"`' for metric in env.task.metrics)
    return "\n".join([*rows, "", f"The metrics of this task: {metrics}."])


def shared_arguments() -> Iterator[tuple[str, str]]:
    """Yield the arguments that every environment takes, and what the docstring of `CompilerEnv` says of each."""
    text = inspect.getdoc(CompilerEnv)
    assert text is not None
    section = text.partition("\nArgs:\n")[2].partition("\n\n")[0]
    for entry in re.split(r"\n(?=    \w)", f"\n{section}")[1:]:
        name, _, meaning = entry.strip().partition(": ")
        yield name, " ".join(meaning.split())


def info_table(env: CompilerEnv) -> str:
    """Return all keys of an environment's `info` as a Markdown table."""
    rows = ["| key | when | type | meaning |", "|---|---|---|---|"]
    for key in info_keys(env.task):
        when = f"{key.when}, {key.condition}" if key.condition else key.when
        rows.append(f"| `{key.name}` | {when} | {key.type} | {key.meaning} |")
    return "\n".join(rows)


def _row(name: str, default: object, meaning: str) -> str:
    shown = f'`"{default}"`' if isinstance(default, str) else f"`{default!r}`"
    return f"| `{name}` | {shown} | {meaning} |"
