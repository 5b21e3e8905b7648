"""Changes single places of the code, one at a time, and prints the changes that the tests do not notice.

    python .ci/mutants.py map tests/episode tests/envs   # runs tests once, and notes the lines that each executes
    python .ci/mutants.py run mlgo_gym/episode --sample 20 --seed 1 --output mutants.jsonl

Each mutant changes a copy of the working tree. The tests that execute its line run until the first failure, those of
the mirrored folder first, at most `--tests` of them. `--always` names tests for files that no test executes in its own
process, as most of `mlgo_clang`. A survivor is either equivalent or a missing test. Needs `coverage`.
"""

from __future__ import annotations

import argparse
import ast
import copy
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from coverage import CoverageData

ROOT = Path(__file__).parents[1]
DATA = ROOT / ".mutants"
"""Folder of the coverage data, one file for each `map`."""

SECONDS = 180.0
"""Time limit of the tests of a mutant; a mutant that never ends is killed."""

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
    node: ast.AST
    new: str

    def source(self, text: bytes) -> bytes:
        """Return the file with the change."""
        lines = text.splitlines(keepends=True)
        node: ast.stmt = self.node  # type: ignore[assignment]  # statements and expressions have a place
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


def contexts(path: str, data: list[CoverageData]) -> dict[int, set[str]]:
    """Return the tests that execute each line of a file, as `tests/file.py::test`."""
    found: dict[int, set[str]] = {}
    for part in data:
        for line, names in part.contexts_by_lineno(str(ROOT / path)).items():
            for name in filter(None, names):
                module, _, test = name.rpartition(".")
                if test.startswith("test_"):
                    found.setdefault(line, set()).add(f"{module.replace('.', '/')}.py::{test}")
    return found


def map_tests(tests: list[str]) -> None:
    """Run each folder or file of tests under coverage."""
    DATA.mkdir(exist_ok=True)
    for test in tests:
        name = DATA / test.strip("/").replace("/", "-")
        settings = name.with_suffix(".ini")
        settings.write_text(f"[run]\ndynamic_context = test_function\ndata_file = {name}.coverage\n")
        words = ["-m", "coverage", "run", f"--rcfile={settings}", "--source=mlgo_gym,mlgo_clang", "-m", "pytest", "-q"]
        subprocess.run([sys.executable, *words, "-n", "0", "-p", "no:cacheprovider", test], cwd=ROOT, check=False)


def try_mutant(mutant: Mutant, tests: list[str], tree: Path) -> str:
    """Run tests on a copy of the tree with a mutant; return `killed`, `survived`, or `untested`."""
    if not tests:
        return "untested"
    file = tree / mutant.path
    original = file.read_bytes()
    file.write_bytes(mutant.source(original))
    words = [sys.executable, "-m", "pytest", "-x", "-q", "-n", "0", "-p", "no:cacheprovider", *tests]
    # `start_new_session`: a hanging test takes its compilers with it.
    running = subprocess.Popen(
        words, cwd=tree, env={**os.environ, "PYTHONPATH": str(tree)}, start_new_session=True, stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        return "survived" if running.wait(SECONDS) == 0 else "killed"
    except subprocess.TimeoutExpired:
        os.killpg(running.pid, 9)
        running.wait()
        return "killed"
    finally:
        file.write_bytes(original)


def main() -> None:
    """Map tests, or run mutants."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=("map", "run"))
    parser.add_argument("paths", nargs="+", help="tests to map, or files and folders to change")
    parser.add_argument("--sample", type=int, default=20, help="mutants of each path (default: 20)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--tests", type=int, default=25, help="maximum number of tests of a mutant (default: 25)")
    parser.add_argument("--always", nargs="*", default=[], help="tests for lines without any")
    parser.add_argument("--output", type=Path, default=DATA / "mutants.jsonl")
    options = parser.parse_args()
    if options.action == "map":
        map_tests(options.paths)
        return
    data = []
    for file in sorted(DATA.glob("*.coverage")):
        data.append(CoverageData(str(file)))
        data[-1].read()
    with tempfile.TemporaryDirectory(prefix="mlgo-gym-mutants-") as name, options.output.open("a") as output:
        tree = Path(name)
        for path in subprocess.check_output(["git", "ls-files"], cwd=ROOT, text=True).splitlines():
            if (ROOT / path).exists():
                (tree / path).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(ROOT / path, tree / path, follow_symlinks=False)
        for place in options.paths:
            found = ROOT / place
            files = sorted(found.rglob("*.py")) if found.is_dir() else [found]
            every = [mutant for file in files for mutant in mutants(file)]
            drawn = random.Random(options.seed).sample(every, min(options.sample, len(every)))
            counts = dict.fromkeys(("killed", "survived", "untested"), 0)
            for mutant in drawn:
                line: int = mutant.node.lineno  # type: ignore[attr-defined]  # statements and expressions have a place
                near = f"tests/{'/'.join(Path(mutant.path).parts[-2:-1])}/"
                lines = contexts(mutant.path, data)
                # Lines that run at import have no test of their own.
                known = lines.get(line) or set[str]().union(*lines.values())
                tests = sorted(known, key=lambda test: (not test.startswith(near), test))
                started = time.monotonic()
                outcome = try_mutant(mutant, (tests or options.always)[: options.tests], tree)
                counts[outcome] += 1
                row = {"path": mutant.path, "line": line, "old": ast.unparse(mutant.node), "new": mutant.new}
                row |= {"outcome": outcome, "seconds": round(time.monotonic() - started, 1)}
                print(json.dumps(row), file=output, flush=True)
                if outcome != "killed":
                    old = row["old"].splitlines()[0][:100]
                    print(f"{outcome} {mutant.path}:{line}: {old}  ->  {mutant.new.splitlines()[0][:100]}", flush=True)
            print(place, f"of {len(every)} mutants:", counts, flush=True)


if __name__ == "__main__":
    main()
