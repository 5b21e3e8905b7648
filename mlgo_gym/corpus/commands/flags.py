"""Edits of flags: add, delete and replace, with the semantics of google/ml-compiler-opt's corpus loader.

`flag_values.json` lists the flags of clang 17 to 22 for which a trailing use prints "argument to '-x' is missing".
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path

from mlgo_gym.errors import CorpusError

_PASS_THROUGH = ("-mllvm", "-Xclang")
_ONE_VALUE_AFTER_JOINED = ("-plugin-arg-", "-Xarch_")
_JOINED_LETTERS = ("-O", "-I", "-D", "-U")
_THINLTO_INDEX = "-fthinlto-index="


def arity(flag: str) -> int:
    """Return how many of the following words belong to a flag: 1 for `-I`, 0 for `-I/usr/include`."""
    return 1 if flag.startswith(_ONE_VALUE_AFTER_JOINED) else _arities().get(flag, 0)


@lru_cache(maxsize=1)
def _arities() -> dict[str, int]:
    table = json.loads((Path(__file__).parent / "flag_values.json").read_bytes())
    return {flag: int(number) for number, lines in table.items() for flag in " ".join(lines).split()}


def edit_flags(
    flags: Sequence[str],
    *,
    add: Sequence[str] = (),
    delete: Iterable[str] = (),
    replace: Mapping[str, str] | None = None,
) -> tuple[str, ...]:
    """Return flags without those of `delete`, with new values by name of `replace`, and with `add` appended.

    A flag is named without its value: `-target-cpu`, `-fvisibility` for `-fvisibility=hidden`, `-O` for `-Oz`,
    `-inline-threshold` for `-mllvm -inline-threshold=5`. A preceding `-mllvm` or `-Xclang` belongs to the flag.

    Raises:
        CorpusError: a flag to replace does not occur exactly once or takes no value, or a flag is named twice.
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
            remedy = "delete and add it" if times else "add it instead"
            raise CorpusError(f"expected one {name} to replace, got {times} in {' '.join(flags)[:500]!r}; {remedy}")
    return (*edited, *add)


def check_edits(*, add: Sequence[str], delete: Iterable[str], replace: Mapping[str, str]) -> None:
    """Check that no flag is named in two of the three edits; raise `CorpusError` otherwise."""
    deleted = tuple(delete)
    for unit in split_flags(add):
        for name in (*deleted, *replace):
            if _is_named(unit, name):
                other = "deleted" if name in deleted else "replaced"
                raise CorpusError(f"expected one edit of {name}, got it both added and {other}; name it once")
    for name in replace:
        if any(_is_named([name], other) or _is_named([other], name) for other in deleted):
            raise CorpusError(f"expected one edit of {name}, got it both deleted and replaced; name it once")


def split_flags(flags: Sequence[str]) -> list[list[str]]:
    """Return flags grouped with their values; raise `CorpusError` if the last flag lacks its value."""
    units: list[list[str]] = []
    position = 0
    while position < len(flags):
        values = arity(flags[position])
        # In `-Xclang -target-feature -Xclang +avx` a second -Xclang precedes the value.
        if flags[position] == "-Xclang" and arity("".join(flags[position + 1 : position + 2])) == 1:
            values = 3
        unit = list(flags[position : position + 1 + values])
        if len(unit) <= values:
            raise CorpusError(f"expected {values} value(s) after {unit[0]}, got {len(unit) - 1}; complete the flags")
        units.append(unit)
        position += len(unit)
    return units


def take_thinlto_index(flags: Sequence[str]) -> tuple[tuple[str, ...], bool]:
    """Return flags without `-fthinlto-index=…`, and whether that names an index other than `/dev/null`.

    The recorded path belongs to the machine of the build; the corpus has a copy.
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
    raise CorpusError(f"expected a flag with a value, got {name} to replace by {value!r}; delete and add it instead")
