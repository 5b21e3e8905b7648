"""Findings of `mlgo-gym doctor` about Rust, and about flags that need a model in the compiler."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from mlgo_clang.rustc_arguments import llvm_version, rustc_version

OLDEST_LLVM = 17
_VARIABLES = re.compile(r"(?:CARGO_(?:ENCODED_|BUILD_|TARGET_\w+_))?RUSTFLAGS|C(?:PP|XX)?FLAGS")
_SWITCH = "-enable-ml-inliner=release"
_CHANNEL = "-inliner-interactive-channel-base="


def find_rustc(newest_llvm: int | None) -> dict[str, Any]:
    """Return version, LLVM and path of rustc, and why it cannot be used, if so.

    Args:
        newest_llvm: major version of the clang that reads bitcode of crates.
    """
    path = shutil.which("rustc")
    if path is None:
        return {"reason": "not installed, needed for crates only"}
    text = rustc_version([path])
    release = re.search(r"^release: (\S+)", text, re.MULTILINE)
    major, llvm = llvm_version(text)
    if release is None or not major:
        return {"path": path, "reason": "prints no version; install a toolchain with rustup"}
    found = {"path": path, "version": release[1], "llvm": llvm}
    if major < OLDEST_LLVM:
        found["reason"] = f"expected LLVM {OLDEST_LLVM} or newer; run rustup update"
    elif newest_llvm is not None and major > newest_llvm:
        found["reason"] = f"clang {newest_llvm} cannot read its bitcode; choose a newer clang for corpora"
    return found


def misleading_places(environment: Mapping[str, str], folder: Path) -> Iterator[str]:
    """Yield each place that switches on the model of the inliner without a channel.

    Places are variables for flags of compilers, and cargo's configuration of a folder and of the user.
    """
    for name, value in environment.items():
        if _VARIABLES.fullmatch(name) and _SWITCH in value and _CHANNEL not in value:
            yield name
    home = Path(environment.get("CARGO_HOME") or "~/.cargo").expanduser()
    parents = [parent / ".cargo" for parent in (folder, *folder.parents)]
    for path in dict.fromkeys(place / name for place in (*parents, home) for name in ("config.toml", "config")):
        try:
            text = path.read_text(encoding="utf-8", errors="replace")
        except OSError:
            continue
        if _SWITCH in text and _CHANNEL not in text:
            yield str(path)


def flag_problems() -> Iterator[dict[str, str]]:
    """Yield a problem and its remedy for each misleading flag here."""
    for place in misleading_places(os.environ, Path.cwd()):
        yield {
            "problem": f"{place} contains {_SWITCH}, and a released compiler has no model: rustc grows code without a "
            "message, and clang refuses to compile",
            "remedy": "remove the flag; RUSTC_WRAPPER=mlgo-rustc or CC=mlgo-clang compile with a policy",
        }
