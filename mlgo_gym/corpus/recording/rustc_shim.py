"""The part of the shim that records a crate: rustc compiles it again and writes bitcode before optimisation."""

from __future__ import annotations

import os

# ruff: noqa: PTH108, PTH109, PTH118, PTH123 - pathlib would double the time to start
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any


def record_crate(settings: dict[str, Any], compiles: Any, program: str, arguments: Sequence[str]) -> None:
    """Add a folder to `settings["records"]`, as `compiles.record_compile()` does; `compiles` is `shim_compiles`."""
    from mlgo_clang.rustc_arguments import Crate, read_sources

    folder = os.getcwd()
    crate = Crate(arguments, folder)
    if not crate.source.endswith(".rs") or not crate.emits_code:
        return
    source = os.path.join(folder, crate.source)
    package = os.environ.get("CARGO_PKG_NAME", crate.name)
    reason = None
    if crate.runs_in_the_compiler:
        reason = "a build script or a procedural macro"
    elif crate.is_test:
        reason = "a program of tests"
    elif crate.level == "0":
        reason = "a crate without optimisation (build with --release)"
    elif settings["crates"] is not None and package not in settings["crates"]:
        reason = "a crate that is not in the dataset"
    if reason is not None:
        compiles.write_record(settings, "skipped.json", {"source": source, "reason": reason})
        return
    scratch = compiles.new_record(settings)
    bitcode, listing = f"{scratch}/module.bc", f"{scratch}/sources.d"
    command = [program, *crate.bitcode_arguments(settings["rust_level"], bitcode, listing)]
    status, stderr = compiles.run_front_end(command, folder)
    if status == 0:
        with open(listing, encoding="utf-8", errors="surrogateescape") as file:
            sources = read_sources(file.read())
        os.unlink(listing)
        digest, lines = _read_sources(sources, folder)
        kind = "bin/" if crate.types == {"bin"} else ""
        content = {
            "source": source,
            "object": os.path.join(folder, crate.output),
            "object_sha256": None,
            "name": f"{package}/{kind}{crate.name}.o",
            "package": package,
            "version": os.environ.get("CARGO_PKG_VERSION", ""),
            "folder": folder,
            "lto": None,
            "compiler_path": None,
            "language": "rust",
            "source_sha256": digest,
            "lines": lines,
            "driver_flags": crate.driver_flags(),
        }
        compiles.finish_record(scratch, "record.json", content)
    else:
        content = {"source": source, "message": stderr.strip(), "killed": status < 0}
        compiles.finish_record(scratch, "failure.json", content)


def _read_sources(sources: Sequence[str], folder: str) -> tuple[str, int]:
    """Return a digest and the number of lines of all sources of a crate."""
    import hashlib

    digest, lines = hashlib.sha256(), 0
    for source in sources:
        with open(os.path.join(folder, source), "rb") as file:
            text = file.read()
        digest.update(hashlib.sha256(text).digest())
        lines += text.count(b"\n") * source.endswith(".rs")
    return digest.hexdigest(), lines
