"""Command-line programs in Rust, linked by cargo with and without a policy: size, build time, instructions, output.

    python -m benchmarks.rust_programs --work runs/rust_programs

Each program is a binary or an example of a crate, which cargo fetches from its configured source. The profile is
opt-level z, one codegen unit, panic=abort, strip and no LTO. Instructions are those of one run on a fixed input, as
cachegrind counts them; both builds must print the same. The program's own tests run as the policy compiles them, except
those that need crates beyond its dependencies. A program that is in the output is not built again.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.measuring import RESULTS, ROOT, command_line, cpu_seconds, read_json, write_json
from mlgo_gym.llvm.sizes import object_sizes

_SETTINGS = {"OPT_LEVEL": "z", "CODEGEN_UNITS": "1", "LTO": "off", "PANIC": "abort", "STRIP": "true"}
_PROFILE = {f"CARGO_PROFILE_RELEASE_{name}": value for name, value in _SETTINGS.items()}
_TESTS = re.compile(r"^test result: \w+\. (\d+) passed; (\d+) failed", re.MULTILINE)
_INSTRUCTIONS = re.compile(r"I\s+refs:\s+([\d,]+)")


class Program(NamedTuple):
    """A crate with a program.

    `arguments` precede the path of the input; `<` gives it on standard input. `tests` are arguments of `cargo test`.
    `kind` is `bin`, or `example` for a binary of the crate's examples.
    """

    version: str
    binary: str
    arguments: tuple[str, ...]
    content: Callable[[], bytes]
    tests: tuple[str, ...] = ("--lib",)
    kind: str = "bin"


def _markdown() -> bytes:
    return b"\n".join(page.read_bytes() for page in sorted((ROOT / "docs").rglob("*.md")))


def _xml() -> bytes:
    rows = "".join(f'<row number="{number}"><cell>text &amp; {number * 7}</cell></row>\n' for number in range(20_000))
    return f'<?xml version="1.0"?>\n<table>\n{rows}</table>\n'.encode()


def _bytes() -> bytes:
    return bytes((number * number + number // 7) & 255 for number in range(400_000))


PROGRAMS: Mapping[str, Program] = {
    "pulldown-cmark": Program("0.9.2", "pulldown-cmark", ("<",), _markdown, ("--lib", "--bins")),
    "xml-rs": Program("0.8.3", "xml-analyze", (), _xml, ("--test", "event_writer", "--test", "streaming")),
    "hexyl": Program("0.8.0", "hexyl", ("--color=always",), _bytes, ("--lib", "--bins")),
    "roxmltree": Program("0.16.0", "ast", (), _xml, ("--tests",), kind="example"),
    "markdown": Program("0.3.0", "markdown", (), _markdown),
}


def sources(name: str, version: str, folder: Path) -> None:
    """Copy the sources of a crate from cargo's source to a folder, without development dependencies."""
    with tempfile.TemporaryDirectory() as scratch:
        Path(scratch, "src").mkdir()
        Path(scratch, "src/lib.rs").touch()
        package = '[package]\nname = "a"\nversion = "0.0.0"\nedition = "2021"\n[dependencies]\n'
        Path(scratch, "Cargo.toml").write_text(f'{package}{name} = "={version}"\n')
        words = ["cargo", "metadata", "--format-version=1"]
        answer = subprocess.run(words, cwd=scratch, capture_output=True, check=True)
    packages = json.loads(answer.stdout)["packages"]
    found = next(each for each in packages if (each["name"], each["version"]) == (name, version))
    shutil.copytree(Path(found["manifest_path"]).parent, folder, dirs_exist_ok=True)
    for toolchain in ("rust-toolchain", "rust-toolchain.toml"):
        (folder / toolchain).unlink(missing_ok=True)
    manifest = folder / "Cargo.toml"
    text = re.sub(r"(?ms)^\[(?:dev-dependencies|\[bench\]|\[test\])[^\n]*\n.*?(?=^\[|\Z)", "", manifest.read_text())
    manifest.write_text(f"{text}\n[workspace]\n")


def cargo(words: Sequence[str], folder: Path, target: Path, policy: str | None) -> str:
    """Run cargo with a policy or alone, and return its output; tests may fail."""
    environment = {**os.environ, **_PROFILE, "CARGO_TARGET_DIR": str(target)}
    if policy is not None:
        wrapper = Path(sys.executable).parent / "mlgo-rustc"
        environment |= {"RUSTC_WRAPPER": str(wrapper), "MLGO_POLICY": policy, "MLGO_STRICT": "1"}
    command = ["cargo", *words, "--release"]
    answer = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if answer.returncode and not _TESTS.search(answer.stdout):
        raise SystemExit(f"{' '.join(command)}: {answer.stderr[-2000:]}")
    return answer.stdout


def execute(binary: Path, program: Program, source: Path) -> tuple[int | None, tuple[int, bytes]]:
    """Run a program under cachegrind on its input, and return its instructions, and its status and output."""
    words = [*(word for word in program.arguments if word != "<"), *([] if "<" in program.arguments else [str(source)])]
    tool = ["valgrind", "--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null"]
    with source.open("rb") as file:
        answer = subprocess.run([*tool, str(binary), *words], stdin=file, capture_output=True, check=False)
    counted = _INSTRUCTIONS.search(answer.stderr.decode(errors="replace"))
    return int(counted[1].replace(",", "")) if counted else None, (answer.returncode, answer.stdout)


def measure(name: str, policy: str, work: Path) -> dict[str, Any]:
    """Build a program with and without the policy, run both, and run its tests with the policy."""
    program, folder, source = PROGRAMS[name], work / name, work / f"{name}.input"
    sources(name, program.version, folder)
    source.write_bytes(program.content())
    row: dict[str, Any] = {"program": name, "version": program.version, "policy": policy}
    outputs = []
    for kind, wrapped in (("plain", None), ("policy", policy)):
        target = work / f"{name}-{kind}"
        shutil.rmtree(target, ignore_errors=True)
        started = cpu_seconds()
        cargo(["build", f"--{program.kind}", program.binary], folder, target, wrapped)
        seconds = round(cpu_seconds() - started, 2)
        built = target / "release" / ("examples" if program.kind == "example" else "") / program.binary
        # Under one path, since a program may print its own.
        binary = Path(shutil.copy(built, work / program.binary))
        instructions, output = execute(binary, program, source)
        outputs.append(output)
        sizes = {"bytes": binary.stat().st_size, "text": object_sizes(binary.read_bytes()).text}
        row[f"{kind}_build"] = {"seconds": seconds, **sizes, "instructions": instructions}
    counts = _TESTS.findall(cargo(["test", "--no-fail-fast", *program.tests], folder, target, policy))
    row["tests"] = {word: sum(int(count[at]) for count in counts) for at, word in enumerate(("passed", "failed"))}
    row["same_output"] = outputs[0] == outputs[1] and bool(outputs[0][1])
    return row


def main() -> None:
    """Measure the programs that the output lacks."""
    parser = command_line(__doc__)
    parser.add_argument("--policy", default="default,inline-oz", help="policies of mlgo-rustc")
    parser.add_argument("--program", action="append", choices=PROGRAMS, help="program; repeatable; default: all")
    parser.add_argument("--work", type=Path, default=Path("runs/rust_programs"), help="folder for builds")
    parser.add_argument("--output", type=Path, default=RESULTS / "rust_programs.json", help="JSON file to extend")
    options = parser.parse_args()
    work = options.work.resolve()
    work.mkdir(parents=True, exist_ok=True)
    rows = read_json(options.output, [])
    for name in options.program or PROGRAMS:
        if (name, options.policy) not in {(row["program"], row["policy"]) for row in rows}:
            rows.append(measure(name, options.policy, work))
            write_json(options.output, rows)
            print(json.dumps(rows[-1]), flush=True)


if __name__ == "__main__":
    main()
