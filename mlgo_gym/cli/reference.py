"""`mlgo-gym env`, and the pages of the environments on the site: Markdown.

Docstrings and signatures of the classes, `KEYS` of infos and the tables of features are the only sources.
"""

import inspect
import re
from collections.abc import Iterable
from dataclasses import fields
from typing import Annotated, Any

import typer
from gymnasium.envs.registration import load_env_creator

from mlgo_gym import APPROXIMATIONS, ENVIRONMENTS
from mlgo_gym.cli import options
from mlgo_gym.cli.interface import print_result
from mlgo_gym.env import CompilerEnv
from mlgo_gym.episode.argument_types import keyword_parameters
from mlgo_gym.episode.compile_options import COMPILE_OPTIONS, CompileOptions
from mlgo_gym.episode.options import EnvironmentOptions
from mlgo_gym.errors import MlgoError, did_you_mean
from mlgo_gym.make_env import make_environment
from mlgo_gym.tasks.features import FeatureTable
from mlgo_gym.tasks.infos import KEYS, InfoKey, info_keys

_DTYPES = {"int64_t": "int64", "float": "float32"}
_BASELINE = "baseline_"
_READER = """For people who choose an environment, or train on one. [Arguments and info](arguments.md) and
[features](features.md) have pages of their own; `mlgo-gym env mlgo/Inline-v0` prints all."""

_INFO = f"""The last info of an episode always has the same keys. After a failure its integers are 0, its floats are
NaN, and its collections are empty. Costs and `function_sizes` have a `{_BASELINE}NAME`, that of a plain compile by the
same clang with the same flags."""


def env(
    name: Annotated[
        str | None, typer.Argument(help="Id of an environment: mlgo/Inline-v0, or MODULE:ID.", metavar="[ID]")
    ] = None,
    *,
    as_json: options.Json = False,
) -> None:
    """Show the manual of an environment: spaces, reward, arguments, infos and features; without ID, list all."""
    if name is None:
        summaries = {env_id: _docstring_of(env_id).splitlines()[0] for env_id in ENVIRONMENTS}
        data = [{"id": env_id, "summary": summary} for env_id, summary in summaries.items()]
        print_result(as_json, data, "\n".join(f"{env_id:24}{summary}" for env_id, summary in summaries.items()))
    else:
        print_result(as_json, {"id": name, "manual": manual(name)}, manual(name))


def environments_page() -> str:
    """Return the page of all environments, for the site."""
    return "\n\n".join(["# Environments", _READER, *map(_card, ENVIRONMENTS)])


def manual(name: str) -> str:
    """Return the page of an environment with all its arguments, infos and features; the id may have a module first.

    Raises `MlgoError` if the id is unknown, or the environment has no compiler.
    """
    env_id = name.removeprefix("mlgo_gym:")
    if env_id not in ENVIRONMENTS and ":" not in env_id:
        hint = did_you_mean(env_id, list(ENVIRONMENTS))
        raise MlgoError(f"expected one of {', '.join(ENVIRONMENTS)} or MODULE:ID, got {name!r}{hint}")
    if env_id in APPROXIMATIONS:
        raise MlgoError(
            f"expected an environment with a compiler, got {name!r}; `python -m pydoc "
            f"{ENVIRONMENTS[env_id].replace(':', '.')}Env` prints its manual"
        )
    env = _make(env_id)
    parts = [f"# {env_id.rpartition(':')[2]}", _docstring(type(env)), _metrics(env)]
    parts += ["## Arguments", "\n".join([*_arguments(type(env)), *_entries()])]
    parts += ["## Info", _INFO, _info_table(info_keys(env.task)), "## Features"]
    return "\n\n".join([*parts, *(part for table in env.task.tables for part in _features(table))])


def _make(name: str) -> CompilerEnv:
    """Return an environment with default arguments and the bundled clang, which supports every task."""
    return make_environment(name, {"clang": "bundled"})


def _environments() -> dict[str, CompilerEnv]:
    return {name: _make(name) for name in ENVIRONMENTS if name not in APPROXIMATIONS}


def _docstring(env_type: object) -> str:
    text = inspect.getdoc(env_type) or ""
    # The list of arguments has the same declarations; the page of a class has its attributes.
    return re.split(r"\n(?:Args|Attributes):\n", text)[0].rstrip()


def _docstring_of(name: str) -> str:
    return _docstring(load_env_creator(f"{ENVIRONMENTS[name]}Env"))


def _card(name: str) -> str:
    """Return the section of an environment: its docstring, one level lower, and its metrics."""
    text = f"## {name}\n\n{_docstring_of(name).replace('## ', '### ')}"
    return text if name in APPROXIMATIONS else f"{text}\n\n{_metrics(_make(name))}"


def _metrics(env: CompilerEnv) -> str:
    first, *others = (f'`"{metric}"`' for metric in env.task.metrics)
    return f"Values of `metric`: {', '.join([f'{first} (default)', *others])}."


def arguments_page() -> str:
    """Return the page of the arguments and infos of all environments, for the site."""
    shared = _arguments(CompilerEnv)
    ids: dict[str, list[str]] = {}
    for name, env in _environments().items():
        for line in _arguments(type(env)):
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
        "\n".join(_entries()),
        "## Info",
        _INFO,
        _info_table(KEYS),
    ]
    return "\n\n".join(parts)


def features_page() -> str:
    """Return the page of the features of all environments, for the site."""
    tables = {table.title: table for env in _environments().values() for table in env.task.tables}
    reader = "For people who read observations: the features of each kind of decision, as clang computes them."
    sections = [part for table in tables.values() for part in _features(table, "##")]
    return "\n\n".join(["# Features", reader, *sections])


def _arguments(env_type: type[CompilerEnv]) -> list[str]:
    """Return a line for each argument of an environment."""
    documented = (EnvironmentOptions, *reversed(env_type.__mro__))
    meanings = {name: text for kind in documented for name, text in _meanings(kind).items()}
    return [
        _argument(name, parameter.default, meanings[name]) for name, parameter in keyword_parameters(env_type).items()
    ]


def _entries() -> list[str]:
    """Return a line for each entry of `compile_options`."""
    meanings = _meanings(CompileOptions)
    return [
        _argument(f"{COMPILE_OPTIONS}.{field.name}", field.default, meanings[field.name])
        for field in fields(CompileOptions)
    ]


def _argument(name: str, default: Any, meaning: str) -> str:
    value = f'"{default}"' if isinstance(default, str) else repr(dict(default) if name == COMPILE_OPTIONS else default)
    return f"- `{name}` = `{value}`: {meaning}"


def _meanings(kind: type) -> dict[str, str]:
    """Return the meaning of each argument in the docstring of a class."""
    _, _, section = (inspect.getdoc(kind) or "").partition("\nArgs:\n")
    entries = re.findall(r"^    (\w+): (.+(?:\n {8}.+)*)", section.partition("\n\n")[0], re.MULTILINE)
    return {name: " ".join(text.split()) for name, text in entries}


def _info_table(keys: Iterable[InfoKey]) -> str:
    rows = [
        (f"`{key.name}`", ", ".join(filter(None, (key.when, key.tasks, key.condition))), key.type, key.meaning)
        for key in keys
        if not key.name.startswith(_BASELINE)
    ]
    return _table(("key", "when", "type", "meaning"), rows)


def _features(table: FeatureTable, level: str = "###") -> list[str]:
    rows = []
    for feature in table.features:
        lengths = ", ".join(map(str, feature.shape))
        shape = f"({lengths},)" if len(feature.shape) == 1 else f"({lengths})"
        rows.append((f"`{feature.name}`", _DTYPES[feature.type], shape, feature.meaning, str(feature.since)))
    source = f" Filled in by `{table.source}`." if table.source else ""
    parts = [f"{level} {table.title}", table.introduction + source]
    parts.append(_table(("name", "dtype", "shape", "meaning", "since clang"), rows))
    return [*parts, table.note] if table.note else parts


def _table(headings: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [f"| {' | '.join(headings)} |", "|---" * len(headings) + "|"]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in rows)])
