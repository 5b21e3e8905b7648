"""The code of the pages runs, their commands and links exist, and their figures are measured; the package imports."""

import ast
import contextlib
import io
import json
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import typer

from benchmarks import held_out
from docs.site import measurements, numbers
from mlgo_gym.cli.application import application

WITHOUT_EDITABLE = "sys.meta_path[:] = [finder for finder in sys.meta_path if 'editable' not in repr(finder).lower()]\n"
ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PAGES = [*(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md")), *sorted(DOCS.rglob("*.md"))]
TEXTS = {page: page.read_text(encoding="utf-8") for page in PAGES}
PROGRAM = re.compile(r"(benchmarks|examples)[./]\w+(\.py)?")


def python_blocks(page: Path) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```", TEXTS[page], re.MULTILINE | re.DOTALL)


def headings(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as GitHub makes them."""
    titles = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}


def test_links_lead_somewhere_and_python_code_compiles() -> None:
    broken = []
    for page, text in TEXTS.items():
        for target in re.findall(r"\]\(([^)\s]+)\)", text):
            path, _, heading = target.partition("#")
            if path.startswith(("http:", "https:")):
                continue
            linked = (page.parent / path).resolve() if path else page
            if not linked.exists() or (heading and linked.suffix == ".md" and heading not in headings(linked)):
                broken.append((page.name, target))
        for block in python_blocks(page):
            compile(block, str(page), "exec")
    assert broken == []


def run_python(code: str, folder: Path) -> list[str]:
    command = [sys.executable, "-W", "error", "-c", code]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True).stdout.splitlines()


@pytest.mark.libraries
@pytest.mark.timeout(600)
def test_the_code_of_the_readme_trains_a_policy_that_is_smaller_than_clang(tmp_path: Path) -> None:
    for library in ("stable_baselines3", "torch"):
        pytest.importorskip(library)
    (code,) = python_blocks(ROOT / "README.md")
    code = f"import torch\ntorch.set_num_threads(1)\n{code}"  # two threads of a busy machine wait for each other
    printed = next(line.split() for line in run_python(code, tmp_path) if line.startswith("ppo"))
    (shown,) = re.findall(r"^ppo .*", TEXTS[ROOT / "README.md"], re.MULTILINE)
    assert (printed[:2], printed[4][0]) == (shown.split()[:2], "-")


def test_the_first_tutorial_prints_the_text_of_its_page() -> None:
    page = DOCS / "tutorials" / "first_episode.md"
    blocks = re.findall(r"^```python\n(.*?)^```\n\n```text\n(.*?)^```", TEXTS[page], re.MULTILINE | re.DOTALL)
    assert len(blocks) == len(python_blocks(page))
    names: dict[str, Any] = {}
    for code, expected in blocks:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(code, page.name, "exec"), names)
        assert printed.getvalue() == expected


def shell_lines(text: str) -> Iterator[str]:
    """Yield the lines of a page's or a docstring's shell code, and its inline code."""
    blocks = re.findall(r"^```(?:sh|console|text)?\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    text = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    for block in (*blocks, *re.findall(r"(?:^ {4}.*\n?)+", text, re.MULTILINE)):
        yield from block.replace("\\\n", " ").splitlines()
    for code in re.findall(r"`([^`]+)`", re.sub(r"^ {4}.*$", "", text, flags=re.MULTILINE)):
        yield " ".join(code.split())


def commands() -> Iterator[list[str]]:
    """Yield the words of each command of `mlgo-gym`, of a benchmark and of an example, from its program on."""
    programs = [*sorted((ROOT / "benchmarks").glob("*.py")), *sorted((ROOT / "examples").glob("*.py"))]
    docstrings = [ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or "" for path in programs]
    for line in (line for text in (*TEXTS.values(), *docstrings) for line in shell_lines(text)):
        lexer = shlex.shlex(line, posix=True, punctuation_chars=";&|()")
        lexer.whitespace_split = True
        words: list[str] = []
        with contextlib.suppress(ValueError):  # a line of another language
            words = list(lexer)
        starts = [at for at, word in enumerate(words) if word.endswith("mlgo-gym") or PROGRAM.fullmatch(word)]
        for start in starts[:1]:
            ends = [at for at, word in enumerate(words) if at > start and (word == "--" or not word.strip(";&|()"))]
            yield words[start : min(ends, default=len(words))]


COMMANDS = list(commands())


def options(words: list[str]) -> set[str]:
    return {word.partition("=")[0] for word in words if re.fullmatch(r"--?[a-z][\w-]*(=.*)?", word)}


def test_every_command_of_mlgo_gym_exists_with_its_options() -> None:
    wrong = []
    root: Any = typer.main.get_command(application)
    for words in (words for words in COMMANDS if words[0].endswith("mlgo-gym")):
        command, rest = root, words[1:]
        while rest and rest[0] in getattr(command, "commands", ()):
            command, rest = command.commands[rest[0]], rest[1:]
        known = {option for each in command.params for option in (*each.opts, *each.secondary_opts)}
        known |= {"--help", "-h", "--install-completion", "--show-completion"}
        missing = hasattr(command, "commands") and rest and re.fullmatch(r"[a-z][a-z-]*", rest[0])
        if missing or not options(rest) <= known:
            wrong.append(" ".join(words))
    assert wrong == []
    assert len(COMMANDS) > 150, "the search for commands finds them"


@cache
def source_of(program: str) -> str:
    """Return the text of a program and of the benchmarks that it imports."""
    text = (ROOT / f"{program.removesuffix('.py').replace('.', '/')}.py").read_text(encoding="utf-8")
    return text + "".join(source_of(name) for name in re.findall(r"^from (benchmarks\.\w+) import", text, re.MULTILINE))


def test_every_program_exists_with_its_options_and_every_extra() -> None:
    for words in (words for words in COMMANDS if PROGRAM.fullmatch(words[0])):
        source = source_of(words[0])
        assert [option for option in options(words[1:]) if option.lstrip("-") not in source] == [], words
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8").partition("[project.optional-dependencies]")[2]
    known = set(re.findall(r"^([a-z0-9-]+) = \[", project, re.MULTILINE))
    shown = re.findall(r"(?:mlgo-gym|\.)\[([a-z0-9,_-]+)\]", "".join(TEXTS.values()))
    assert {name for names in shown for name in names.split(",")} <= known


@pytest.mark.slow
def test_the_figures_of_pages_are_those_of_the_results() -> None:
    texts = {page.name: page.read_text(encoding="utf-8") for page in numbers.pages()}
    assert [name for name, text in texts.items() if numbers.updated(text) != text] == [], "run `make numbers`"
    for kind, file in held_out.CHOICES.items():
        content = json.loads(file.read_bytes())
        chosen = {name for projects in content["projects"].values() for name in projects}
        assert sorted([*chosen, *content["left"]]) == sorted(content["candidates"])
        results = [measurements.read("held_out")[name] for name in held_out.CHOSEN if name.startswith(kind)]
        rows = [row for levels in results for level in levels.values() for row in level.values()]
        assert {project for row in rows for project in row["projects"]} <= {
            re.split("[:=]+", name)[1] for name in chosen
        }


@pytest.mark.libraries
@pytest.mark.filterwarnings("ignore")  # of Jupyter's own parts
def test_the_notebook_runs_from_top_to_bottom(tmp_path: Path) -> None:
    nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    notebook: Any = nbformat.read(ROOT / "examples" / "inlining.ipynb", as_version=4)
    nbclient.NotebookClient(notebook, timeout=100, resources={"metadata": {"path": str(tmp_path)}}).execute()
    outputs = [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]
    assert "last-call against threshold:5" in "".join(output.get("text", "") for output in outputs)
    assert "image/png" in {kind for output in outputs for kind in output.get("data", {})}


def test_a_python_in_the_root_of_a_checkout_needs_no_editable_installation() -> None:
    code = f"import sys; sys.path.insert(0, '')\n{WITHOUT_EDITABLE}import mlgo_gym, mlgo_gym.envs.inline as inline\n"
    code += "print(mlgo_gym.__file__, inline.__file__)"
    files = subprocess.check_output([sys.executable, "-I", "-c", code], cwd=ROOT, text=True).split()
    assert files == [str(ROOT / "mlgo_gym" / "__init__.py"), str(ROOT / "mlgo_gym" / "envs" / "inline.py")]


def imported(program: str) -> set[str]:
    """Return the modules that a program imports."""
    code = f"import json, sys; before = set(sys.modules)\n{program}\nprint(json.dumps([*set(sys.modules) - before]))"
    return set(json.loads(subprocess.check_output([sys.executable, "-c", code])))


def test_imports_are_as_small_as_what_they_are_for() -> None:
    package = imported("import mlgo_gym")
    assert {name for name in package if name.startswith("mlgo_gym.")} == set()
    assert not {"typer", "rich", "elftools", "pypi_simple", "torch", "ziglang"} & package
    # A command needs the extra `cli` only, and those of others are imported where they are used.
    commands = {name.partition(".")[0] for name in imported("import mlgo_gym.cli.application")}
    assert not {"jinja2", "lightgbm", "matplotlib", "pyarrow", "pypi_simple", "ray", "requests", "torch"} & commands
    assert "mlgo_gym.compiler.ptrace" not in imported("import mlgo_gym.episode.baseline")
    # A build starts the driver hundreds of times.
    driver = {name.partition(".")[0] for name in imported("import mlgo_clang.__main__, mlgo_clang.advised")}
    assert driver <= {"mlgo_clang", "fcntl", "select", "signal", "struct", "_struct", "enum", "types", "operator"}
