"""Command-line programs in Rust, linked by cargo with and without a policy: size, build time, instructions, output.

    python -m benchmarks.rust_programs --work runs/rust_programs --output docs/results/rust_programs.json

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
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.measuring import command_line, cpu_seconds, write_json
from mlgo_gym.llvm.object_file import object_sizes

ROOT = Path(__file__).parents[1]
_PROFILE = {
    "CARGO_PROFILE_RELEASE_OPT_LEVEL": "z",
    "CARGO_PROFILE_RELEASE_CODEGEN_UNITS": "1",
    "CARGO_PROFILE_RELEASE_LTO": "off",
    "CARGO_PROFILE_RELEASE_PANIC": "abort",
    "CARGO_PROFILE_RELEASE_STRIP": "true",
}
_TESTS = re.compile(r"^test result: \w+\. (\d+) passed; (\d+) failed", re.MULTILINE)
_INSTRUCTIONS = re.compile(r"I\s+refs:\s+([\d,]+)")


@dataclass(frozen=True, slots=True)
class Program:
    """A crate with a program.

    Attributes:
        version: its version.
        binary: name of the program.
        arguments: the arguments before the path of the input; `<` gives it on standard input.
        content: the input.
        tests: arguments of `cargo test` that select its own tests.
        kind: `bin`, or `example` for a binary of the crate's examples.
    """

    version: str
    binary: str
    arguments: tuple[str, ...]
    content: Callable[[], bytes]
    tests: tuple[str, ...] = ("--lib",)
    kind: str = "bin"

    def path(self, target: Path) -> Path:
        """Return the binary in the folder of a build."""
        return target / "release" / ("examples" if self.kind == "example" else "") / self.binary


def _markdown() -> bytes:
    pages = sorted((ROOT / "docs").rglob("*.md"))
    return b"\n".join(page.read_bytes() for page in pages)


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


def sources(name: str, version: str, folder: Path) -> Path:
    """Copy the sources of a crate from cargo's source to a folder, without development dependencies."""
    with tempfile.TemporaryDirectory() as scratch:
        Path(scratch, "src").mkdir()
        Path(scratch, "src/lib.rs").touch()
        Path(scratch, "Cargo.toml").write_text(
            f'[package]\nname = "a"\nversion = "0.0.0"\nedition = "2021"\n[dependencies]\n{name} = "={version}"\n'
        )
        words = ["cargo", "metadata", "--format-version=1"]
        answer = subprocess.run(words, cwd=scratch, capture_output=True, check=True)
    found = [
        each for each in json.loads(answer.stdout)["packages"] if (each["name"], each["version"]) == (name, version)
    ]
    shutil.copytree(Path(found[0]["manifest_path"]).parent, folder, dirs_exist_ok=True)
    for name_of_toolchain in ("rust-toolchain", "rust-toolchain.toml"):
        (folder / name_of_toolchain).unlink(missing_ok=True)
    manifest = folder / "Cargo.toml"
    text = re.sub(r"(?ms)^\[(?:dev-dependencies|\[bench\]|\[test\])[^\n]*\n.*?(?=^\[|\Z)", "", manifest.read_text())
    manifest.write_text(f"{text}\n[workspace]\n")
    return folder


def build(folder: Path, program: Program, target: Path, policy: str | None) -> dict[str, Any]:
    """Build a program anew, with a policy or by cargo alone, and return its measurements."""
    shutil.rmtree(target, ignore_errors=True)
    started = cpu_seconds()
    answer = _cargo(["build", f"--{program.kind}", program.binary], folder, target, policy)
    if answer.returncode != 0:
        raise SystemExit(f"{program.binary} is not built: {answer.stderr[-2000:]}")
    binary = program.path(target)
    return {"seconds": round(cpu_seconds() - started, 2), "bytes": binary.stat().st_size, **_text(binary)}


def run_tests(folder: Path, program: Program, target: Path, policy: str) -> dict[str, int]:
    """Run a program's own tests as a policy compiles them, and return how many pass and fail."""
    answer = _cargo(["test", "--no-fail-fast", *program.tests], folder, target, policy)
    counts = [(int(passed), int(failed)) for passed, failed in _TESTS.findall(answer.stdout)]
    if not counts:
        raise SystemExit(f"the tests of {program.binary} are not built: {answer.stderr[-2000:]}")
    return {"passed": sum(passed for passed, _ in counts), "failed": sum(failed for _, failed in counts)}


def _cargo(words: Sequence[str], folder: Path, target: Path, policy: str | None) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, **_PROFILE, "CARGO_TARGET_DIR": str(target)}
    if policy is not None:
        wrapper = Path(sys.executable).parent / "mlgo-rustc"
        environment |= {"RUSTC_WRAPPER": str(wrapper), "MLGO_POLICY": policy, "MLGO_STRICT": "1"}
    command = ["cargo", *words, "--release"]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def _text(binary: Path) -> dict[str, int]:
    return {"text": object_sizes(binary.read_bytes()).text}


def execute(binary: Path, program: Program, source: Path) -> dict[str, Any]:
    """Run a program under cachegrind on its input, and return its instructions, status and output."""
    words = [*(word for word in program.arguments if word != "<"), *([] if "<" in program.arguments else [str(source)])]
    tool = ["valgrind", "--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null"]
    with source.open("rb") as file:
        answer = subprocess.run([*tool, str(binary), *words], stdin=file, capture_output=True, check=False)
    counted = _INSTRUCTIONS.search(answer.stderr.decode(errors="replace"))
    instructions = int(counted[1].replace(",", "")) if counted else None
    return {"instructions": instructions, "status": answer.returncode, "output": answer.stdout}


def measure(name: str, program: Program, policy: str, work: Path) -> dict[str, Any]:
    """Build a program with and without the policy, and run both."""
    folder = sources(name, program.version, work / name)
    source = work / f"{name}.input"
    source.write_bytes(program.content())
    row: dict[str, Any] = {"program": name, "version": program.version, "policy": policy}
    outputs = []
    for kind, chosen in (("plain", None), ("policy", policy)):
        target = work / f"{name}-{kind}"
        row[f"{kind}_build"] = build(folder, program, target, chosen)
        # Under one path, since a program may print its own.
        binary = Path(shutil.copy(program.path(target), work / program.binary))
        run = execute(binary, program, source)
        outputs.append((run.pop("status"), run.pop("output")))
        row[f"{kind}_build"] |= run
    row["tests"] = run_tests(folder, program, work / f"{name}-policy", policy)
    for kind in ("plain", "policy"):
        shutil.rmtree(work / f"{name}-{kind}")
    row["status"] = outputs[0][0]
    row["same_output"] = outputs[0] == outputs[1] and bool(outputs[0][1])
    return row


def main() -> None:
    """Run the program."""
    parser = command_line(__doc__)
    parser.add_argument("--policy", default="default,inline-oz-rust", help="policies of mlgo-rustc")
    parser.add_argument("--program", action="append", choices=PROGRAMS, help="program; repeatable; default: all")
    parser.add_argument("--work", type=Path, default=Path("runs/rust_programs"), help="folder for builds")
    parser.add_argument("--output", type=Path, required=True, help="JSON file; programs in it are not built again")
    arguments = parser.parse_args()
    work = arguments.work.resolve()
    work.mkdir(parents=True, exist_ok=True)
    rows = json.loads(arguments.output.read_bytes()) if arguments.output.exists() else []
    done = {(row["program"], row["policy"]) for row in rows}
    for name in arguments.program or PROGRAMS:
        program = PROGRAMS[name]
        if (name, arguments.policy) not in done:
            rows.append(measure(name, program, arguments.policy, work))
            write_json(arguments.output, rows)
        row = next(row for row in rows if (row["program"], row["policy"]) == (name, arguments.policy))
        plain, chosen = row["plain_build"], row["policy_build"]
        changes = [f"{key} {100 * (chosen[key] / plain[key] - 1):+.2f} %" for key in ("bytes", "text", "instructions")]
        factor = chosen["seconds"] / plain["seconds"]
        same = "same output" if row["same_output"] else "another output"
        tests = f"{row['tests']['passed']} tests pass, {row['tests']['failed']} fail"
        print(f"{name}: {', '.join(changes)}, CPU time of the build {factor:.2f} times, {same}, {tests}", flush=True)


if __name__ == "__main__":
    main()
