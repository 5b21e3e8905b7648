"""The arguments that a corpus may have: those that shape code, and none that write a file or load a program.

A `.cmd` file is untrusted input. The list is `allowed_arguments.json`, which `.ci/option_tables.py` generates from
clang's and LLVM's option tables; SECURITY.md describes it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from mlgo_gym.errors import UntrustedError

_TABLE = Path(__file__).parent / "allowed_arguments.json"
_SECTIONS_LIST = "-fbasic-block-sections=list="
_DRIVER_JOINED = ("--target=", "-march=", "-mtune=", "-mcpu=")
_DRIVER_FLAGS = frozenset({"-m32", "-m64", "-pthread", "-c", "-w", "-pipe", "--no-default-config"})


@dataclass(frozen=True, slots=True)
class _Forms:
    flag: frozenset[str]
    joined: tuple[str, ...]
    separate: frozenset[str]


@dataclass(frozen=True, slots=True)
class _Allowed:
    cc1: _Forms
    driver: _Forms
    refused: tuple[str, ...]
    read: tuple[str, ...]
    llvm_flags: frozenset[str]
    llvm_values: frozenset[str]


def check_arguments(flags: Sequence[str], origin: str, inputs: Sequence[str] = ()) -> None:
    """Raise `UntrustedError` for the first refused argument of an untrusted command line, `-cc1` or driver flags.

    `origin` is the owner of the flags in the message. `inputs` are files of the corpus that arguments may name.
    """
    refused = refused_argument(tuple(flags), tuple(inputs))
    if refused is not None:
        raise UntrustedError(
            f"{origin}: expected arguments that only shape code, got {refused!r}, with which clang may write a file, "
            "read one or load a program; remove it with Corpus.with_flags(delete=...) or, if you know the author of "
            "the corpus, pass --trust-flags, trust_flags=True"
        )


@lru_cache(maxsize=4096)
def refused_argument(flags: tuple[str, ...], inputs: tuple[str, ...] = ()) -> str | None:
    """Return the first argument of a command line that is not allowed, or None."""
    allowed = _allowed()
    is_cc1 = flags[:1] == ("-cc1",)
    forms = allowed.cc1 if is_cc1 else allowed.driver
    words = iter(flags[is_cc1:])
    llvm: list[str] = []
    for word in words:
        value = next(words, "") if word == "-mllvm" or word in forms.separate else None
        if value is not None:
            if value.startswith("@"):  # clang expands @FILE wherever it stands
                return f"{word} {value}"
            if word == "-mllvm" and value:
                llvm.append(value)
        elif not _is_allowed(word, forms, allowed, inputs):
            return word
    return next(_refused_by_llvm(llvm, allowed), None)


@lru_cache(maxsize=65536)
def file_arguments(flags: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    """Return each argument that names a file which shapes the code, such as a profile, as (prefix, file)."""
    prefixes = (*_allowed().read, _SECTIONS_LIST)
    return tuple(
        (prefix, word.removeprefix(prefix)) for word in flags for prefix in prefixes if word.startswith(prefix)
    )


def _is_allowed(word: str, forms: _Forms, allowed: _Allowed, inputs: tuple[str, ...]) -> bool:
    if word.startswith((*allowed.read, _SECTIONS_LIST)):
        return word.removeprefix(_SECTIONS_LIST) in inputs or word.partition("=")[2] in inputs
    return word in forms.flag or (word.startswith(forms.joined) and not word.startswith(allowed.refused))


def _refused_by_llvm(words: Sequence[str], allowed: _Allowed) -> Iterator[str]:
    """Yield the refused words after `-mllvm`, parsed as LLVM's command line library does."""
    position = 0
    while position < len(words):
        word = words[position]
        position += 1
        name, equals, _ = word.lstrip("-").partition("=")
        if not word.startswith("-") or not (name in allowed.llvm_values or name in allowed.llvm_flags):
            yield f"-mllvm {word}"
        elif not equals and name not in allowed.llvm_flags:
            position += 1  # its value is the next word


@lru_cache(maxsize=1)
def _allowed() -> _Allowed:
    table: dict[str, Any] = json.loads(_TABLE.read_bytes())
    driver = _forms(table["driver"])
    return _Allowed(
        cc1=_forms(table["cc1"]),
        driver=_Forms(driver.flag | _DRIVER_FLAGS, driver.joined + _DRIVER_JOINED, driver.separate | {"-target"}),
        refused=_names(table["refused"]),
        read=_names(table["read"]),
        llvm_flags=frozenset(_names(table["llvm"]["flag"])),
        llvm_values=frozenset(_names(table["llvm"]["value"])),
    )


def _forms(table: dict[str, list[str]]) -> _Forms:
    return _Forms(frozenset(_names(table["flag"])), _names(table["joined"]), frozenset(_names(table["separate"])))


def _names(lines: Sequence[str]) -> tuple[str, ...]:
    return tuple(" ".join(lines).split())
