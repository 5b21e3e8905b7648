"""Changes single places of the code, one at a time, and prints the changes that the tests do not notice.

    python .ci/mutants.py map tests/episode tests/envs   # runs tests once, and notes the lines that each executes
    python .ci/mutants.py run mlgo_gym/episode --sample 20 --seed 1 --output mutants.jsonl

Each mutant changes a copy of the working tree. The tests that execute its line, also in programs that they start, run
until the first failure: those of its own folder and the fastest first, within `--seconds` of their time in the map. A
survivor is either equivalent or a missing test. A run continues the output of an earlier one, mutant by mutant. Needs
`coverage`.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import copy
import importlib
import itertools
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

from coverage import CoverageData

ROOT = Path(__file__).parents[1]
DATA = ROOT / ".mutants"
"""Folder of the data of `map`: coverage of the tests and of their programs, and the seconds of each test."""

PRELOADED = ("gymnasium", "jinja2", "numpy", "pytest", "scipy.stats", "typer", "unittest.mock")
"""Libraries that are imported once; a fork of this process runs the tests of each mutant."""

EXTRA_SECONDS, SLOWNESS = 25.0, 6.0
"""The tests of a mutant may take these seconds, and that many times their time in the map; then it counts as killed."""

_seconds = itertools.count(1)

COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
}  # fmt: skip
OPERATORS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult,
    ast.BitOr: ast.BitAnd, ast.BitAnd: ast.BitOr,
}  # fmt: skip


class Mutant(NamedTuple):
    """A change: the replaced node and its replacement."""

    path: str
    node: ast.stmt | ast.expr
    new: str

    @property
    def line(self) -> int:
        """First line of the change."""
        return self.node.lineno

    def source(self, text: bytes) -> bytes:
        """Return the file with the change."""
        lines = text.splitlines(keepends=True)
        node = self.node
        assert node.end_lineno is not None
        first = sum(map(len, lines[: node.lineno - 1])) + node.col_offset
        last = sum(map(len, lines[: node.end_lineno - 1])) + (node.end_col_offset or 0)
        return text[:first] + self.new.encode() + text[last:]


def replacements(node: ast.AST) -> Iterator[ast.AST | str]:
    """Yield the changes of a node: an operator, a constant, an argument or an element less, a statement less."""
    changed = copy.deepcopy(node)
    match changed:
        case ast.Compare(ops=[operator]) if type(operator) in COMPARISONS:
            changed.ops = [COMPARISONS[type(operator)]()]
            yield changed
        case ast.BinOp(op=operator) if type(operator) in OPERATORS:
            changed.op = OPERATORS[type(operator)]()
            yield changed
        case ast.BoolOp():
            changed.op = ast.Or() if isinstance(changed.op, ast.And) else ast.And()
            yield changed
        case ast.UnaryOp(op=ast.Not()):
            yield changed.operand
        case ast.Constant(value=bool()):
            yield ast.Constant(not changed.value)
        case ast.Constant(value=int() | float()):
            yield ast.Constant(changed.value + 1)
        case ast.IfExp():
            yield changed.body
            yield changed.orelse
        case ast.Call():
            for number, keyword in enumerate(changed.keywords):
                if keyword.arg is not None:
                    fewer = copy.deepcopy(changed)
                    del fewer.keywords[number]
                    yield fewer
        case ast.Tuple(elts=elements) | ast.List(elts=elements) | ast.Set(elts=elements) if len(elements) > 1:
            if any(isinstance(element, ast.Slice) for element in elements):
                return  # a tuple of an index has no parentheses
            for number in range(len(elements)):
                fewer = copy.deepcopy(changed)
                del fewer.elts[number]
                yield fewer
        case ast.Dict(keys=keys) if len(keys) > 1:
            for number in range(len(keys)):
                fewer = copy.deepcopy(changed)
                del fewer.keys[number], fewer.values[number]
                yield fewer
        case ast.If():
            changed.test = ast.UnaryOp(ast.Not(), changed.test)
            yield changed
        case ast.Expr(value=ast.Call() | ast.Await()) | ast.AugAssign():
            yield "pass"
        case ast.Return(value=ast.expr()):
            changed.value = ast.Constant(None)
            yield changed


def mutants(path: Path) -> Iterator[Mutant]:
    """Yield the mutants of a file; messages, annotations and docstrings stay."""

    def visit(node: ast.AST, parent: ast.AST) -> Iterator[Mutant]:
        if isinstance(node, ast.Raise | ast.Assert | ast.JoinedStr | ast.Import | ast.ImportFrom):
            return
        if isinstance(node, ast.stmt | ast.expr) and not isinstance(getattr(node, "ctx", None), ast.Store):
            for new in replacements(node):
                text = new if isinstance(new, str) else ast.unparse(new)
                if text == ast.unparse(node):
                    continue
                text = f"({text})" if isinstance(node, ast.expr) else text.replace("\n", f"\n{' ' * node.col_offset}")
                yield Mutant(path.relative_to(ROOT).as_posix(), node, text)
        for name, field in ast.iter_fields(node):
            if name in ("annotation", "returns", "decorator_list", "slice" if isinstance(parent, ast.arg) else ""):
                continue
            for child in field if isinstance(field, list) else [field]:
                if isinstance(child, ast.AST):
                    yield from visit(child, node)

    tree = ast.parse(path.read_bytes())
    yield from visit(tree, tree)


def covered_lines() -> dict[str, dict[int, set[str]]]:
    """Return the tests that execute each line of each file, as `tests/file.py::test`."""
    found: dict[str, dict[int, set[str]]] = {}
    for file in sorted(DATA.glob("*.coverage*")):
        data = CoverageData(str(file))
        data.read()
        for path in data.measured_files():
            lines = found.setdefault(os.path.relpath(path, ROOT), {})
            for line, contexts in data.contexts_by_lineno(path).items():
                for context in contexts:
                    # Coverage has `tests.file.test`, and programs have pytest's `tests/file.py::test[a] (call)`.
                    name = context.split(" ")[0].split("[")[0]
                    if "::" not in name:
                        name = f"{name.rpartition('.')[0].replace('.', '/')}.py::{name.rpartition('.')[2]}"
                    if name.startswith("tests/") and "::test_" in name:  # hypothesis has a `test_function()` of its own
                        lines.setdefault(line, set()).add(name)
    return found


def seconds_of_tests() -> dict[str, float]:
    """Return the duration of each test in the map, over its parameters."""
    found: dict[str, float] = {}
    for file in DATA.glob("*.xml"):
        for case in ElementTree.parse(file).getroot().iterfind(".//testcase[@classname]"):
            name = f"{case.attrib['classname'].replace('.', '/')}.py::{case.attrib['name'].split('[')[0]}"
            found[name] = found.get(name, 0.0) + float(case.attrib["time"])
    return found


def map_tests(tests: list[str]) -> None:
    """Run each file of tests, and the programs that they start, under coverage.

    One process for all would lose most: a test that forks or traces ends the coverage of later ones.
    """
    DATA.mkdir(exist_ok=True)
    # Programs import `sitecustomize`; the variable of `process_startup()` is set when the tests start.
    (DATA / "sitecustomize.py").write_text("import coverage\n\ncoverage.process_startup()\n")
    folders = os.pathsep.join((str(ROOT), str(DATA)))
    places = [ROOT / test for test in tests]
    files = [file for place in places for file in (sorted(place.rglob("test_*.py")) if place.is_dir() else [place])]
    for test in (file.relative_to(ROOT).as_posix() for file in files):
        name = DATA / test.removesuffix(".py").replace("/", "-")
        common = f"data_file = {name}.coverage\nsource_pkgs = mlgo_gym,mlgo_clang\n"
        name.with_suffix(".ini").write_text(f"[run]\ndynamic_context = test_function\n{common}")
        programs = Path(f"{name}-programs.ini")
        programs.write_text(f"[run]\ncontext = ${{PYTEST_CURRENT_TEST-}}\nparallel = true\n{common}")
        main = name.with_suffix(".py")
        main.write_text(
            "import os\nimport sys\n\nimport pytest\n\n"
            f"if __name__ == '__main__':\n    os.environ['COVERAGE_PROCESS_START'] = {str(programs)!r}\n"
            "    sys.exit(pytest.main(sys.argv[1:]))\n"
        )
        words = [sys.executable, "-m", "coverage", "run", f"--rcfile={name}.ini", str(main), "-q", "-n", "0", test]
        words += ["-p", "no:cacheprovider", f"--junitxml={name}.xml", "-o", "junit_duration_report=total"]
        subprocess.run(words, cwd=ROOT, check=False, env={**os.environ, "PYTHONPATH": folders})


def run_tests(tests: list[str], tree: Path, limit: float) -> str:
    """Run tests on a tree in a fork of this process; return the first failure, or an empty text."""
    log = tree.with_suffix(".log")
    process = os.fork()
    if not process:
        os.setsid()  # a hanging test takes its compilers with it
        for descriptor in (1, 2):
            os.dup2(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), descriptor)
        os.chdir(tree)
        sys.path.insert(0, str(tree))
        os.environ["PYTHONPATH"] = str(tree)
        del sys.modules["__main__"].__file__  # worker processes would import it
        status = 1
        try:
            words = ["-x", "-q", "-n", "0", "-p", "no:cacheprovider", f"--basetemp={tree}.tests", *tests]
            status = importlib.import_module("pytest").main(words)
        finally:
            sys.stdout.flush()
            os._exit(status)
    end = time.monotonic() + limit
    ended, status = 0, 0
    while not ended and time.monotonic() < end:
        time.sleep(0.02)
        ended, status = os.waitpid(process, os.WNOHANG)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process, 9)
    if not ended:
        os.waitpid(process, 0)
        return "time limit"
    lines = [line for line in log.read_text(errors="replace").splitlines() if line.startswith(("FAILED", "ERROR"))]
    return "" if status == 0 else (lines or ["ended early"])[0]


def tests_of(mutant: Mutant, covered: dict[str, dict[int, set[str]]]) -> set[str]:
    """Return the tests of a mutant: those of its line, or of what uses the name that its line defines at import."""
    lines = covered.get(mutant.path, {})
    statement, scope = mutant.node, range(0)
    for node in ast.walk(ast.parse((ROOT / mutant.path).read_bytes())):  # outer nodes come first
        if isinstance(node, ast.stmt) and node.lineno <= mutant.line <= (node.end_lineno or 0):
            statement = node
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                scope = range(node.body[0].lineno, (node.end_lineno or 0) + 1)
                if mutant.line in scope:
                    # A line of a longer statement may have no test of its own.
                    places = (lines[line] for line in range(mutant.line, 0, -1) if line in lines)
                    return lines.get(mutant.line) or next(places, set())
    found = set[str]().union(*(lines.get(line, ()) for line in scope))
    names = (node for node in ast.walk(statement) if isinstance(node, ast.Name))
    targets = [name.id for name in names if isinstance(name.ctx, ast.Store)]
    if targets and not scope:
        uses = re.compile(rf"\b({'|'.join(targets)})\b")
        for path, tests in covered.items():
            for number, text in enumerate((ROOT / path).read_text().splitlines(), 1):
                if uses.search(text):
                    found |= tests.get(number, set())
    return found or set[str]().union(*lines.values())


def try_mutant(mutant: Mutant, found: set[str], seconds: dict[str, float], budget: float, tree: Path) -> str:
    """Run tests on a tree with a mutant; return the failure that kills it, `survived`, or `untested`."""

    def order(test: str) -> tuple[bool, float]:
        """Put the tests of the file's own folder first, then the fastest."""
        folder = f"tests/{mutant.path.removeprefix('mlgo_gym/')}".rpartition("/")[0]
        return not test.startswith(f"{folder}/"), seconds.get(test, 1.0)

    tests, total = list[str](), 0.0
    for test in sorted(found, key=order):
        total += seconds.get(test, 1.0)
        if total <= budget or not tests:
            tests.append(test)
    if not tests:
        return "untested"
    file = tree / mutant.path
    original, times = file.read_bytes(), file.stat()
    file.write_bytes(mutant.source(original))
    # Byte code is told apart by the size and the second of its source.
    os.utime(file, (0, next(_seconds)))
    try:
        limit = EXTRA_SECONDS + SLOWNESS * sum(seconds.get(test, 1.0) for test in tests)
        return run_tests(tests, tree, limit) or "survived"
    finally:
        file.write_bytes(original)
        os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))


def main() -> None:
    """Map tests, or run mutants."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=("map", "run"))
    parser.add_argument("paths", nargs="+", help="tests to map, or files and folders to change")
    parser.add_argument("--sample", type=int, default=20, help="mutants of each path (default: 20)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=20.0, help="time of the tests of a mutant (default: 20)")
    parser.add_argument("--output", type=Path, default=DATA / "mutants.jsonl")
    options = parser.parse_args()
    if options.action == "map":
        map_tests(options.paths)
        return
    lines, seconds = covered_lines(), seconds_of_tests()
    for name in PRELOADED:
        importlib.import_module(name)
    options.output.touch()
    earlier = [json.loads(line) for line in options.output.read_text().splitlines()]
    done = {(row["path"], row["line"], row["old"], row["new"]): row["outcome"] for row in earlier}
    with tempfile.TemporaryDirectory(prefix="mlgo-gym-mutants-") as name, options.output.open("a") as output:
        tree = Path(name) / "tree"
        for path in subprocess.check_output(["git", "ls-files"], cwd=ROOT, text=True).splitlines():
            if (ROOT / path).exists():
                (tree / path).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(ROOT / path, tree / path, follow_symlinks=False)
        for place in options.paths:
            found = ROOT / place
            files = sorted(found.rglob("*.py")) if found.is_dir() else [found]
            every = [mutant for file in files for mutant in mutants(file)]
            random.Random(options.seed).shuffle(every)  # a larger sample contains the smaller one
            counts = dict.fromkeys(("killed", "survived", "untested"), 0)
            for mutant in every[: options.sample]:
                key = (mutant.path, mutant.line, ast.unparse(mutant.node), mutant.new)
                outcome = done.get(key)
                if outcome is None:
                    outcome = try_mutant(mutant, tests_of(mutant, lines), seconds, options.seconds, tree)
                    row = dict(zip(("path", "line", "old", "new"), key, strict=True), outcome=outcome)
                    print(json.dumps(row), file=output, flush=True)
                counts[outcome if outcome in counts else "killed"] += 1
                if outcome in counts:
                    old = key[2].splitlines()[0][:100]
                    print(
                        f"{outcome} {mutant.path}:{mutant.line}: {old}  ->  {mutant.new.splitlines()[0][:100]}",
                        flush=True,
                    )
            print(place, f"of {len(every)} mutants:", counts, flush=True)


if __name__ == "__main__":
    main()
