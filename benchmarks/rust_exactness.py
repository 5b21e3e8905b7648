"""Code of Rust crates against that of rustc: compiled by clang from bitcode, and by rustc with its own decisions.

    python -m benchmarks.rust_exactness rust-text rust-parsing --optimize Oz --work runs/rust \
        --output docs/results/rust_exactness.json

While a dataset is fetched, each of its crates is compiled a second time by rustc, with every request for a decision
answered by rustc's own choice; the object must have the bytes of the first one. If it has others, the crate is compiled
once more without the limit of the advisor: over the channel LLVM inlines no more when a module has doubled its size.
Clang compiles the recorded module to sections that are compared with those of rustc. Bitcode does not keep the order of
the uses of a value, which some passes follow. If the sections differ, clang also compiles the crate's IR as text, which
keeps this order.

A dataset that is in the cache must have been fetched by this program; `MLGO_CACHE` names another cache. The same
command resumes an interrupted run. The output has the results of the folder `--work`, and those of other families.
"""

from __future__ import annotations

import json
import os
import shlex
import struct
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.measuring import command_line, write_json
from benchmarks.plugin import executable_sections
from mlgo_clang.compiler import RUSTC
from mlgo_clang.header import Header
from mlgo_clang.interactive import INLINING, InteractiveCompile
from mlgo_clang.rustc_arguments import Crate
from mlgo_gym.corpus.commands.compilation import Compilation, plan
from mlgo_gym.corpus.datasets.catalogue import find_dataset
from mlgo_gym.corpus.datasets.dataset import dataset_folder, fetch_dataset, missing_parts
from mlgo_gym.corpus.opening import open_corpus
from mlgo_gym.llvm.toolchain import find_toolchain
from mlgo_gym.storage.cache import write_atomically

ROOT = Path(__file__).parents[1]
_ARCHIVE = b"!<arch>\n"
_TIMEOUT = 600.0
_OF_DIFFERENT = (
    "package", "version", "text", "clang_text", "own_choices", "own_choices_without_limit", "equal", "equal_as_text"
)  # fmt: skip
_WITHOUT_LIMIT = "-ml-advisor-size-increase-threshold=1e9"


def archive_members(data: bytes) -> Iterator[tuple[str, bytes]]:
    """Yield name and content of each member of an archive, such as a library of Rust."""
    position = len(_ARCHIVE)
    names = b""
    while position < len(data):
        raw, size = data[position : position + 16].decode().strip(), int(data[position + 48 : position + 58])
        content = data[position + 60 : position + 60 + size]
        position += 60 + size + size % 2
        if raw == "//":
            names = content
        elif raw.startswith("/") and raw[1:].isdigit():
            start = int(raw[1:])
            yield names[start : names.index(b"\n", start)].decode().rstrip("/"), content
        elif raw != "/":
            yield raw.rstrip("/"), content


def own_choices(header: Header) -> Callable[[bytes, int], int]:
    """Return the function that gives the compiler's own choice."""
    offset = header.tensors["inlining_default"].offset
    return lambda data, start: int(struct.unpack_from("<q", data, start + offset)[0])


def as_rustc(folder: Path, packages: Sequence[str], rustc: str, arguments: list[str]) -> int:
    """Run rustc; compile a crate of the packages again with its own choices, and write both objects and the result."""
    status = subprocess.run([rustc, *arguments], check=False).returncode
    crate = Crate(arguments)
    package = os.environ.get("CARGO_PKG_NAME", "")
    is_measured = crate.emits_code and crate.level in ("z", "s") and not crate.runs_in_the_compiler
    if status != 0 or package not in packages or not is_measured:
        return status
    library = Path(crate.output).parent / f"lib{Path(crate.output).name}.rlib"
    objects = [data for name, data in archive_members(library.read_bytes()) if name.endswith(".o")]
    plain = objects[0] if len(objects) == 1 else b""
    decisions, answered = _with_own_choices(rustc, crate)
    same = {"own_choices": bool(plain) and answered == plain}
    if not same["own_choices"]:
        _, answered = _with_own_choices(rustc, crate, "-C", f"llvm-args={_WITHOUT_LIMIT}")
        same["own_choices_without_limit"] = bool(plain) and answered == plain
    name = f"{package}-{crate.name}-{crate.level}"
    (folder / f"{name}.o").write_bytes(plain)
    *unoptimised, _ = crate.bitcode_arguments(crate.level, os.devnull, os.devnull)
    text = ["-C", "llvm-args=-preserve-ll-uselistorder", f"--emit=llvm-ir={folder / name}.ll"]
    subprocess.run([rustc, *unoptimised, *text], check=True)
    result = {
        "package": package,
        "version": os.environ.get("CARGO_PKG_VERSION", ""),
        "crate": crate.name,
        "level": f"O{crate.level}",
        "decisions": decisions,
        **same,
        "object": f"{name}.o",
    }
    write_atomically(folder / f"{name}.json", json.dumps(result).encode())
    return status


def _with_own_choices(rustc: str, crate: Crate, *options: str) -> tuple[int, bytes]:
    """Return the decisions of rustc with its own choices over the channel, and its object; empty if it failed."""
    with tempfile.TemporaryDirectory() as scratch:
        kept = [word for name, _, words in crate.options for word in words if name not in ("--emit", "--json", "-o")]
        rest = [*kept, *options, f"--emit=obj={scratch}/crate.o"]
        with Path(os.devnull).open("wb") as null:
            run = InteractiveCompile(
                [rustc], rest, [(INLINING, own_choices)], null.fileno(), _TIMEOUT, llvm_option=RUSTC.llvm_option
            )
        return run.decisions, Path(scratch, "crate.o").read_bytes() if run.status == 0 else b""


def measure(name: str, optimize: str, work: Path) -> None:
    """Fetch a dataset with this program as rustc, and add to each result the comparison with clang."""
    toolchain = find_toolchain("bundled")
    dataset = find_dataset(name)
    folder = (work / f"{name}-{optimize}").resolve()
    folder.mkdir(parents=True, exist_ok=True)
    cached = not missing_parts(dataset, dataset_folder(dataset, optimize, toolchain))
    if cached and not any(folder.glob("*.json")):
        raise SystemExit(f"{name} is in the cache without results in {folder}; remove it from the cache first")
    rustc = subprocess.run(["rustc", "--print=sysroot"], capture_output=True, text=True, check=True).stdout.strip()
    packages = [crate.package for crate in dataset.crates]
    words = [sys.executable, "-m", "benchmarks.rust_exactness", "--as-rustc", str(folder), ",".join(packages)]
    script = folder / "rustc"
    path = f"PYTHONPATH={shlex.quote(str(ROOT))}"
    script.write_text(f'#!/bin/sh\n{path} exec {shlex.join([*words, f"{rustc}/bin/rustc"])} "$@"\n')
    script.chmod(0o755)
    os.environ["RUSTC"] = str(script)
    corpus = open_corpus(fetch_dataset(name, optimize=optimize, toolchain=toolchain), toolchain=toolchain)
    modules = {module.name: module for module in corpus}
    for path_of_result in sorted(folder.glob("*.json")):
        result = json.loads(path_of_result.read_bytes())
        module = modules.get(f"{result['package']}/{result['crate']}.o")
        if module is None or "clang_text" in result:
            continue
        own = executable_sections((folder / result["object"]).read_bytes())
        compilation = plan(module, toolchain)
        code = _code_of_clang(compilation)
        result |= {"dataset": name, "text": _bytes_of(own), "clang_text": _bytes_of(code), "equal": code == own}
        text = (folder / result["object"]).with_suffix(".ll")
        if code != own:
            result["equal_as_text"] = _code_of_clang(replace(compilation, inputs=("-x", "ir", str(text)))) == own
        text.unlink()
        write_atomically(path_of_result, json.dumps(result).encode())


def _code_of_clang(compilation: Compilation) -> Counter[bytes]:
    with tempfile.TemporaryDirectory() as scratch:
        compiled = Path(scratch, "clang.o")
        subprocess.run([*compilation.command, "-o", compiled], check=True)
        return executable_sections(compiled.read_bytes())


def _bytes_of(code: Counter[bytes]) -> int:
    return sum(len(section) * number for section, number in code.items())


def collected(work: Path) -> list[dict[str, Any]]:
    """Return all results below a folder."""
    results = [json.loads(path.read_bytes()) for path in sorted(work.glob("rust-*/*.json"))]
    return [result for result in results if "equal" in result]


def summary(results: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Print a line for each family at each level, and return their numbers and the crates that differ."""
    content: dict[str, Any] = {}
    for level, family in sorted({(result["level"], result["dataset"]) for result in results}):
        chosen = [result for result in results if (result["level"], result["dataset"]) == (level, family)]
        different = [
            {key: result[key] for key in _OF_DIFFERENT if key in result}
            for result in chosen
            if not (result["equal"] and result["own_choices"])
        ]
        row = {
            "crates": len(chosen),
            "own_choices": sum(result["own_choices"] for result in chosen),
            "clang": sum(result["equal"] for result in chosen),
            "clang_as_text": sum(result["equal"] or result["equal_as_text"] for result in chosen),
            **{key: sum(result[key] for result in chosen) for key in ("decisions", "text", "clang_text")},
            "different": different,
        }
        content.setdefault(level.lower(), {})[family] = row
        print(
            f"{family} -{level}: {row['crates']} crates; own choices give rustc's bytes for {row['own_choices']}; "
            f"clang gives the code of rustc for {row['clang']} from bitcode, for {row['clang_as_text']} from text"
        )
        for each in different:
            print(f"  {each['package']} {each['version']}: {each['text']:,} {each['clang_text']:,}")
    return content


def main() -> None:
    """Run the program."""
    if sys.argv[1:2] == ["--as-rustc"]:
        folder, packages, rustc, *words = sys.argv[2:]
        sys.exit(as_rustc(Path(folder), packages.split(","), rustc, words))
    parser = command_line(__doc__)
    parser.add_argument("datasets", nargs="*", help="names of families; without one the results are only collected")
    parser.add_argument("--optimize", default="Oz", choices=("Oz", "Os"), help="level")
    parser.add_argument("--work", type=Path, default=Path("runs/rust"), help="folder for results")
    parser.add_argument("--output", type=Path, help="JSON file")
    arguments = parser.parse_args()
    for name in arguments.datasets:
        measure(name, arguments.optimize, arguments.work)
    content: dict[str, Any] = {}
    if arguments.output is not None and arguments.output.exists():
        content = json.loads(arguments.output.read_bytes())
    for level, families in summary(collected(arguments.work)).items():
        # An entry may have the sums of several families.
        earlier = content.get(level, {}).items()
        others = {names: row for names, row in earlier if families.keys().isdisjoint(names.split())}
        content[level] = dict(sorted((others | families).items()))
    write_json(arguments.output, content)


if __name__ == "__main__":
    main()
