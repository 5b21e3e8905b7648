"""The pages of all environments on the site: docstrings, arguments, infos and features."""

from __future__ import annotations

from mlgo_gym import APPROXIMATIONS, ENVIRONMENTS
from mlgo_gym.cli.reference import (
    INFO,
    argument_lines,
    class_docstring,
    default_environment,
    entry_lines,
    feature_parts,
    info_table,
    metric_values,
)
from mlgo_gym.env import CompilerEnv
from mlgo_gym.tasks.infos import KEYS

_READER = """For people who choose an environment, or train on one. [Arguments and info](arguments.md) and
[features](features.md) have pages of their own; `mlgo-gym env mlgo/Inline-v0` prints all."""


def environments_page() -> str:
    """Return the page of all environments."""
    return "\n\n".join(["# Environments", _READER, *map(_card, ENVIRONMENTS)])


def _card(name: str) -> str:
    """Return the section of an environment: its docstring, one level lower, and its metrics."""
    text = f"## {name}\n\n{class_docstring(name).replace('## ', '### ')}"
    return text if name in APPROXIMATIONS else f"{text}\n\n{metric_values(default_environment(name))}"


def arguments_page() -> str:
    """Return the page of the arguments and infos of all environments."""
    shared = argument_lines(CompilerEnv)
    ids: dict[str, list[str]] = {}
    for name, env in _environments().items():
        for line in argument_lines(type(env)):
            if line not in shared:
                ids.setdefault(line, []).append(f"`{name}`")
    further = [f"{line} Of {', '.join(names)}." for line, names in ids.items()]
    parts = [
        "# Arguments and info",
        "For people who make an environment: its arguments and the keys of `info`.",
        "## Arguments",
        "All are JSON values, except a `Corpus` object. The last ones belong to some environments.",
        "\n".join([*shared, *further]),
        "## Entries of `compile_options`",
        'How each module is compiled, as in `compile_options={"timeout": 20}`.',
        "\n".join(entry_lines()),
        "## Info",
        INFO,
        info_table(KEYS),
    ]
    return "\n\n".join(parts)


def features_page() -> str:
    """Return the page of the features of all environments."""
    tables = {table.title: table for env in _environments().values() for table in env.task.tables}
    reader = "For people who read observations: the features of each kind of decision, as clang computes them."
    sections = [part for table in tables.values() for part in feature_parts(table, "##")]
    return "\n\n".join(["# Features", reader, *sections])


def _environments() -> dict[str, CompilerEnv]:
    return {name: default_environment(name) for name in ENVIRONMENTS if name not in APPROXIMATIONS}
