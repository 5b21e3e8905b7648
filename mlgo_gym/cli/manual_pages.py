"""The manual pages: each environment's docstring and the tables of its features, as Markdown."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from pathlib import Path

from gymnasium.envs.registration import load_env_creator, registry

from mlgo_gym import ENVIRONMENTS
from mlgo_gym.cli.manual_arguments import argument_table, info_table
from mlgo_gym.env import CompilerEnv
from mlgo_gym.llvm.ir2vec import ARGUMENTS, OPCODES, TYPES
from mlgo_gym.storage.cache import write_atomically
from mlgo_gym.tasks.feature_reference import EMBEDDINGS, FEATURES, NEWER_STAGES_SINCE, OLDER_STAGES, STAGES, Feature

_ADVISORS = {
    "mlgo/Inline-v0": ("inlining",),
    "mlgo/InlineIR2Vec-v0": ("inlining", "embeddings"),
    "mlgo/Joint-v0": ("inlining", "eviction", "priority"),
    "mlgo/RegAllocEvict-v0": ("eviction",),
    "mlgo/RegAllocPriority-v0": ("priority",),
}
"""Which tables an environment's page has."""

_TABLES = {**FEATURES, "embeddings": EMBEDDINGS}
_DTYPES = {"int64_t": "int64", "float": "float32"}
_GENERATED = "<!-- made by `mlgo-gym docs` from the docstrings of the classes and the references in mlgo_gym/tasks -->"


def pages() -> dict[str, str]:
    """Return the text of each page by its file name: one for each environment, and `index.md`."""
    texts = {f"{_short(name)}.md": _page(name) for name in ENVIRONMENTS}
    return {"index.md": _index(), **texts}


def write_pages(folder: Path) -> list[str]:
    """Write the pages into a folder, and take away pages of environments that are gone.

    Returns:
        The names of the files that changed.
    """
    changed = outdated(folder)
    wanted = pages()
    for name in changed:
        if name in wanted:
            write_atomically(folder / name, wanted[name].encode())
        else:
            (folder / name).unlink()
    return changed


def outdated(folder: Path) -> list[str]:
    """Return the names of the pages in a folder that are missing, differ from what they ought to be, or ought not."""
    wanted = pages()
    found = {path.name: path.read_text() for path in folder.glob("*.md")}
    return sorted(name for name in {*wanted, *found} if wanted.get(name) != found.get(name))


def _short(name: str) -> str:
    return name.partition("/")[2]


def _docstring(name: str) -> str:
    entry_point = registry[name].entry_point
    assert isinstance(entry_point, str)
    text = inspect.getdoc(load_env_creator(entry_point))
    assert text is not None
    return text


def _made(name: str) -> CompilerEnv:
    """Return an environment as it is without arguments; the bundled clang can do every task."""
    entry_point = registry[name].entry_point
    assert isinstance(entry_point, str)
    env = load_env_creator(entry_point)(clang="bundled")
    assert isinstance(env, CompilerEnv)
    return env


def _with_table(docstring: str, section: str, table: str) -> str:
    """Return a docstring with a table after the first paragraph of one of its sections."""
    before, heading, after = docstring.partition(f"## {section}\n\n")
    assert heading, f"a manual page has the section {section}"
    paragraph, gap, rest = after.partition("\n\n")
    return f"{before}{heading}{paragraph}\n\n{table}{gap}{rest}"


def _index() -> str:
    rows = [f"| [`{name}`]({_short(name)}.md) | {_docstring(name).splitlines()[0]} |" for name in ENVIRONMENTS]
    return "\n".join([_GENERATED, "", "# Environments", "", "| environment | task |", "|---|---|", *rows, ""])


def _page(name: str) -> str:
    env = _made(name)
    text = _with_table(_docstring(name), "Arguments", argument_table(env))
    text = _with_table(text, "Info", info_table(env))
    parts = [_GENERATED, f"# {name}", text, "## Features"]
    for advisor in _ADVISORS[name]:
        parts += [f"### {advisor.capitalize()}", _introduction(advisor), _table(_TABLES[advisor])]
        if advisor in ("eviction", "priority"):
            parts.append(_stages())
        if advisor == "embeddings":
            parts.append(_entities())
    return "\n\n".join(parts) + "\n"


def _introduction(advisor: str) -> str:
    return {
        "inlining": "Of the call and of the callee as they would be here, unless a row says otherwise. In a flat "
        "observation each is one element.",
        "embeddings": "Before `inlining_default`. In a flat observation the elements are `callee_embedding[0]` and so "
        "on, or have the names below.",
        "eviction": "`columns` is 33. In a flat observation the elements are `nr_urgent[0]` and so on; `mask` is "
        "`action_mask`. Frequencies are static estimates, relative to the function's entry.",
        "priority": "In a flat observation each is one element.",
    }[advisor]


def _table(features: Iterable[Feature]) -> str:
    rows = ["| name | dtype | shape | meaning | since clang |", "|---|---|---|---|---|"]
    for feature in features:
        lengths = ", ".join(map(str, feature.shape))
        shape = f"({lengths},)" if len(feature.shape) == 1 else f"({lengths})"
        rows.append(f"| `{feature.name}` | {_DTYPES[feature.type]} | {shape} | {feature.meaning} | {feature.since} |")
    return "\n".join(rows)


def _stages() -> str:
    def listing(names: Iterable[str]) -> str:
        return ", ".join(f"{number} {name}" for number, name in enumerate(names))

    newer, older = listing(STAGES), listing(OLDER_STAGES)
    return f"Stages of a live range: since clang {NEWER_STAGES_SINCE} {newer}; before it {older}."


def _entities() -> str:
    kinds = {"opcode": OPCODES, "type": TYPES, "operand": ARGUMENTS}
    lines = [f"- `SIDE_{kind}_NAME`: {', '.join(f'`{entity}`' for entity in names)}" for kind, names in kinds.items()]
    return "\n".join(
        [
            'With `vocabulary="one-hot"` the elements are, where `SIDE` is `callee` or `caller`, and `NAME` is of:',
            "",
            *lines,
        ]
    )
