"""The part of `shim.py` for rustc: it runs the real one, and then records the crate if a recording is active.

cargo starts the shim as its `RUSTC_WRAPPER`, with rustc as the first argument. Each record is a folder that appears by
a rename.
"""

from __future__ import annotations

import os

# ruff: noqa: PTH104, PTH108, PTH109, PTH118, PTH120, PTH123 - pathlib would double the time to start
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any


def run_rustc(argv: Sequence[str], settings_path: str | None, load: Callable[[str], Any]) -> int:
    """Run rustc, and record the crate if there are settings of a recording.

    Args:
        argv: the program, and its arguments.
        settings_path: path of the settings.
        load: imports a module beside this file, or of `mlgo_clang`.

    Returns:
        Exit status of the program, also if recording fails.
    """
    program, *arguments = argv
    settings: dict[str, Any] = {}
    if settings_path:
        import json

        with open(settings_path, encoding="utf-8") as file:
            settings = json.load(file)
        # rustc links with the machine's own linker driver, not with the shim of that name.
        found = [each for each in os.environ.get("PATH", os.defpath).split(os.pathsep) if each != settings["shims"]]
        if any(os.access(os.path.join(each, "cc"), os.X_OK) for each in found):
            os.environ["PATH"] = os.pathsep.join(found)
    if not settings or not any(word.endswith(".rs") or word.startswith("@") for word in arguments):
        os.execvp(program, [program, *arguments])  # noqa: S606 - a shim becomes the compiler
    status = os.waitstatus_to_exitcode(os.waitpid(os.posix_spawnp(program, list(argv), os.environ), 0)[1])
    if status == 0:
        compiles = load("shim_compiles")
        try:
            _record(settings, compiles, program, arguments)
        except Exception as error:  # noqa: BLE001 - the build continues if recording fails
            message = f"{type(error).__name__}: {error}"
            compiles.note_failure(os.path.dirname(str(settings_path)), " ".join(arguments)[:500], message)
    return status if status >= 0 else 128 - status


def _record(settings: dict[str, Any], compiles: Any, program: str, arguments: Sequence[str]) -> None:
    """Add a folder to `settings["records"]` as `shim_compiles.record_compile()` does."""
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
    scratch, target = compiles.new_record(settings)
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
        compiles.write_json(f"{scratch}/record.json", content)
    else:
        content = {"source": source, "message": stderr.strip(), "killed": status < 0}
        compiles.write_json(f"{scratch}/failure.json", content)
    os.rename(scratch, target)


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
