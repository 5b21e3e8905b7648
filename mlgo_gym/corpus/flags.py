"""Flags of a module, edited: added, deleted and replaced with knowledge of how many values each takes.

The order of a module's command line, and what the three edits do, follow google/ml-compiler-opt's loader.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from mlgo_gym.corpus.arity import arity
from mlgo_gym.errors import CorpusError

_PASS_THROUGH = ("-mllvm", "-Xclang")
_JOINED_LETTERS = ("-O", "-I", "-D", "-U")
_THINLTO_INDEX = "-fthinlto-index="


def edit_flags(
    flags: Sequence[str],
    *,
    add: Sequence[str] = (),
    delete: Iterable[str] = (),
    replace: Mapping[str, str] | None = None,
) -> tuple[str, ...]:
    """Return flags with some deleted, some replaced and some added at the end.

    A flag is named as it is written, without its value: `-target-cpu`, `-fvisibility` for `-fvisibility=hidden`, `-O`
    for `-Oz`, `-inline-threshold` for `-mllvm -inline-threshold=5`. What follows `-mllvm` or `-Xclang` goes with it.

    Args:
        flags: a command line; `-cc1` is not looked at.
        add: words to append.
        delete: flags to take out, each wherever it stands, with the values that it takes.
        replace: a new value for each flag named.

    Raises:
        CorpusError: a flag to replace is absent, is there twice, or takes no value; or one flag is named in two of the
            three lists.
    """
    deleted = tuple(delete)
    replaced = dict(replace or {})
    check_edits(add=add, delete=deleted, replace=replaced)
    edited: list[str] = []
    found = dict.fromkeys(replaced, 0)
    for unit in split_flags(flags):
        if any(_is_named(unit, name) for name in deleted):
            continue
        match = next((name for name in replaced if _is_named(unit, name)), None)
        if match is None:
            edited.extend(unit)
        else:
            found[match] += 1
            edited.extend(_with_value(unit, match, replaced[match]))
    for name, times in found.items():
        if times != 1:
            problem = "is not there; add it instead" if times == 0 else f"is there {times} times; delete and add it"
            raise CorpusError(f"the flag {name} was to be replaced once, and {problem}: {' '.join(flags)[:500]}")
    return (*edited, *add)


def check_edits(*, add: Sequence[str], delete: Iterable[str], replace: Mapping[str, str]) -> None:
    """Check that no flag is named in two of the three lists.

    Raises:
        CorpusError: one is, and the text names it.
    """
    deleted = tuple(delete)
    for unit in split_flags(add):
        for name in (*deleted, *replace):
            if _is_named(unit, name):
                other = "deleted" if name in deleted else "replaced"
                raise CorpusError(f"the flag {name} is to be both added and {other}; name it in one of the lists")
    for name in replace:
        if any(_is_named([name], other) or _is_named([other], name) for other in deleted):
            raise CorpusError(f"the flag {name} is to be both deleted and replaced; name it in one of the lists")


def split_flags(flags: Sequence[str]) -> list[list[str]]:
    """Return flags as groups: each a flag followed by the values that it takes.

    Raises:
        CorpusError: the last flag lacks a value.
    """
    units: list[list[str]] = []
    position = 0
    while position < len(flags):
        values = arity(flags[position])
        # In `-Xclang -target-feature -Xclang +avx`, the value comes through a second -Xclang.
        if flags[position] == "-Xclang" and arity("".join(flags[position + 1 : position + 2])) == 1:
            values = 3
        unit = list(flags[position : position + 1 + values])
        if len(unit) <= values:
            raise CorpusError(f"the flag {unit[0]} takes {values} value(s) and is the last word; complete the flags")
        units.append(unit)
        position += len(unit)
    return units


def take_thinlto_index(flags: Sequence[str]) -> tuple[tuple[str, ...], bool]:
    """Return flags without `-fthinlto-index=…`, and whether that named an index.

    The recorded path is one of the machine that built the module; the corpus has its own copy. `/dev/null` and the
    empty path mean a module of a ThinLTO build that has no index.
    """
    indexes = [flag.removeprefix(_THINLTO_INDEX) for flag in flags if flag.startswith(_THINLTO_INDEX)]
    rest = tuple(flag for flag in flags if not flag.startswith(_THINLTO_INDEX))
    return rest, any(index not in ("", "/dev/null") for index in indexes)


def _is_named(unit: Sequence[str], name: str) -> bool:
    flag = unit[0]
    if flag == name or flag.startswith(f"{name}="):
        return True
    if name in _JOINED_LETTERS:
        return flag.startswith(name)
    return flag in _PASS_THROUGH and len(unit) > 1 and _is_named(unit[1:], name)


def _with_value(unit: list[str], name: str, value: str) -> list[str]:
    for position, word in enumerate(unit):
        if word.startswith(f"{name}="):
            return [*unit[:position], f"{name}={value}", *unit[position + 1 :]]
        if word == name and position + 1 < len(unit):
            return [*unit[:-1], value]
    if name in _JOINED_LETTERS and unit[0] != name:
        return [f"{name}{value}"]
    raise CorpusError(f"the flag {name} takes no value, so it cannot be replaced by {value!r}; delete and add instead")
