"""Flags of modules: edits, the arguments that a corpus may have, and the files that flags name.

Edits have the semantics of google/ml-compiler-opt's corpus loader. `flag_values.json` lists the flags of clang 17 to 22
for which a trailing use prints "argument to '-x' is missing". A `.cmd` file is untrusted input: its allowed arguments
shape code, and none writes a file or loads a program. Their list is `allowed_arguments.json`, which
`.ci/option_tables.py` generates from clang's and LLVM's option tables; SECURITY.md describes it. It has the arguments
of `-cc1`: driver flags are checked after the driver has expanded them.
"""

import hashlib
import json
import os
import re
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import Any

from mlgo_gym.cache import write_atomically
from mlgo_gym.errors import CorpusError, UntrustedError

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


def without_flags(flags: Sequence[str], names: Sequence[str]) -> tuple[str, ...]:
    """Return flags without those of some names.

    A flag is named without its value: `-target-cpu`, `-fvisibility` for `-fvisibility=hidden`, `-O` for `-Oz`,
    `-inline-threshold` for `-mllvm -inline-threshold=5`. A preceding `-mllvm` or `-Xclang` belongs to the flag. Raises
    `CorpusError` if the last flag lacks its value.
    """
    units = (unit for unit in split_flags(flags) if not any(_is_named(unit, name) for name in names))
    return tuple(word for unit in units for word in unit)


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


_SECTIONS_LIST = "-fbasic-block-sections=list="
# The driver itself starts a program that `--amdgpu-arch-tool=` names, and reads files of flags: `@FILE`, `--config=`,
# and one beside its program that a triple with slashes leads out of. No flag of these forms does.
_EXPANDABLE = re.compile(r"-[Og][\w.=-]*|-[fm][\w.+,=-]*|-w|-c|-pipe|-pthread|--target=[\w.+-]*")


def check_arguments(flags: Sequence[str], origin: str, inputs: Sequence[str] = ()) -> None:
    """Raise `UntrustedError` for the first refused argument of an untrusted command line.

    After `-cc1`, arguments must be on the list. Driver flags must have a form that the driver may expand; the
    expansion needs this check, too. `origin` is the owner of the flags in the message. `inputs` are files of the corpus
    that arguments may name.
    """
    words = tuple(flags)
    refused = refused_argument(words, tuple(inputs)) if words[:1] == ("-cc1",) else _not_expandable(words)
    if refused is not None:
        raise UntrustedError(
            f"{origin}: expected arguments that only shape code, got {refused!r}, with which clang may write a file, "
            "read one or load a program; record the module without it or, if you know the author of the corpus, pass "
            "--trust-flags, trust_flags=True"
        )


def _not_expandable(flags: Sequence[str]) -> str | None:
    """Return the first driver flag that the driver must not see, or None."""
    words = iter(flags)
    for word in words:
        value = next(words, "@") if word == "-mllvm" else None  # goes to the `-cc1` line as it is
        if not _EXPANDABLE.fullmatch(word) or (value or "").startswith("@"):
            return word if value is None else f"{word} {value}"
    return None


@lru_cache(maxsize=4096)
def refused_argument(flags: tuple[str, ...], inputs: tuple[str, ...] = ()) -> str | None:
    """Return the first argument of a `-cc1` line that is not allowed, or None."""
    names, prefixes = _allowed()
    words = iter(flags[1:])
    llvm: list[str] = []
    for word in words:
        if word == "-mllvm" or word in names["cc1 separate"]:
            value = next(words, None)
            # It would take the next word of the command. And clang expands @FILE wherever it stands.
            if value is None or value.startswith("@"):
                return word if value is None else f"{word} {value}"
            if word == "-mllvm":
                llvm.append(value)
        elif word.startswith(prefixes["read"]):
            if word.removeprefix(_SECTIONS_LIST) not in inputs and word.partition("=")[2] not in inputs:
                return word
        elif word not in names["cc1 flag"] and (
            not word.startswith(prefixes["cc1 joined"]) or word.startswith(prefixes["refused"])
        ):
            return word
    return _refused_by_llvm(llvm)


@lru_cache(maxsize=65536)
def file_arguments(flags: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    """Return each argument that names a file which shapes the code, such as a profile, as (prefix, file)."""
    prefixes = _allowed()[1]["read"]
    return tuple(
        (prefix, word.removeprefix(prefix)) for word in flags for prefix in prefixes if word.startswith(prefix)
    )


def _refused_by_llvm(words: Sequence[str]) -> str | None:
    """Return the first refused word after `-mllvm`, parsed as LLVM's command line library does."""
    allowed = _allowed()[0]
    rest = iter(words)
    for word in rest:
        name, equals, _ = word.lstrip("-").partition("=")
        is_flag = name in allowed["llvm flag"]
        if not word.startswith("-") or not (is_flag or name in allowed["llvm value"]):
            return f"-mllvm {word}"
        if not equals and not is_flag:
            next(rest, None)  # its value is the next word
    return None


@lru_cache(maxsize=1)
def _allowed() -> tuple[dict[str, frozenset[str]], dict[str, tuple[str, ...]]]:
    """Return the names by kind (`cc1 flag`, `cc1 separate`, `llvm value`), and prefixes (`cc1 joined`, `read`)."""
    table: dict[str, Any] = json.loads((Path(__file__).parent / "allowed_arguments.json").read_bytes())
    lines = {"refused": table["refused"], "read": table["read"]}
    for section in ("cc1", "llvm"):
        lines |= {f"{section} {kind}": names for kind, names in table[section].items()}
    words = {kind: tuple(" ".join(names).split()) for kind, names in lines.items()}
    words["read"] += (_SECTIONS_LIST,)
    return {kind: frozenset(names) for kind, names in words.items()}, words


INPUTS_FOLDER = "inputs"
"""Folder of the copies; flags name them relative to the corpus."""


def safe_name(text: str) -> str:
    """Return a text as the name of a file: underscores replace all but letters, digits, dots, plus and minus."""
    return re.sub(r"[^\w.+-]+", "_", text)


def copy_inputs(flags: Sequence[str], folder: Path, corpus: Path) -> tuple[str, ...]:
    """Copy the files that flags name, relative to `folder`, into a corpus, and return flags that name the copies.

    Raises `CorpusError` if a file cannot be read.
    """
    edited = list(flags)
    for prefix, name in file_arguments(tuple(flags)):
        path = folder / name
        try:
            data = path.read_bytes()
        except OSError as error:
            raise CorpusError(f"the flag {prefix}{name} names a file that cannot be read: {error}") from error
        copy = f"{INPUTS_FOLDER}/{hashlib.sha256(data).hexdigest()[:16]}-{safe_name(path.name)}"
        if not (corpus / copy).exists():
            write_atomically(corpus / copy, data)
        edited[edited.index(f"{prefix}{name}")] = f"{prefix}{copy}"
    return tuple(edited)


def resolve_inputs(flags: tuple[str, ...], corpus: Path) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return flags with absolute paths for the files that a corpus contains, and those paths.

    Flags that name any other file stay as they are.
    """
    named = file_arguments(flags)
    if not named:
        return flags, ()
    resolved, inputs = list(flags), []
    inside = f"{os.path.realpath(corpus)}/"
    for prefix, name in named:
        relative = PurePosixPath(name)
        path = corpus.absolute() / relative
        if relative.is_absolute() or ".." in relative.parts or not os.path.realpath(path).startswith(inside):
            continue
        if path.is_file():
            resolved[resolved.index(f"{prefix}{name}")] = f"{prefix}{path}"
            inputs.append(str(path))
    return tuple(resolved), tuple(inputs)
