"""Every option of a command arrives: with another value the command returns or writes something else."""

import json
from pathlib import Path
from typing import Any

import pytest
import typer

from mlgo_gym import MlgoError
from mlgo_gym.cli.application import application
from mlgo_gym.llvm.toolchain import Toolchain
from mlgo_gym.training.labels import label_tables
from tests.cli.command import run
from tests.conftest import MakeBitcode, copy_modules, write_files
from tests.corpus.conftest import record

Options = dict[str, tuple[object, ...]]

COMPILER: Options = {"--clang": ("nowhere",)}
TABLE: dict[str, tuple[tuple[object, ...], Options]] = {
    "evaluate": (
        ("mlgo/Inline-v0", "--corpus", "{corpus}", "--policy", "random"),
        {
            **COMPILER,
            "--corpus": ("{other}",),
            "--policy": ("never",),
            "--split": ("test",),
            "--output": ("{folder}/results",),
            "--seed": (1,),
            "--metric": ("object",),
            "--limit": (1,),
            "--link": (),
            "--run": (),
            "--set": ("max_decisions=1",),
        },
    ),
    "search": (
        ("mlgo/Inline-v0", "--corpus", "{corpus}", "--compiles", 8, "--module", "one/families0"),
        {
            **COMPILER,
            "--corpus": ("{other}",),
            "--metric": ("object",),
            "--module": ("two/mixed0",),
            "--compiles": (2,),
            "--seconds": (1e-6,),
            "--start": ("nobody",),
            "--recipes": ("{folder}/recipes",),
            "--seed": (1,),
            "--output": ("{folder}/search.jsonl",),
            "--set": ("max_decisions=1",),
        },
    ),
    "label": (
        ("{corpus}", "--output", "{folder}/labels", "--compiles", 3),
        {
            **COMPILER,
            "--output": ("{folder}/elsewhere",),
            "--policy": ("always",),
            "--compiles": (4,),
            "--seconds": (1e-6,),
            "--seed": (1,),
            "--largest": (1,),
            "--limit": (1,),
            "--max-per-project": (1,),
            "--graphs": (),
            "--metric": ("nonsense",),
            "--set": ("reward=nonsense",),
        },
    ),
    "trace": (
        ("mlgo/Inline-v0", "--corpus", "{corpus}", "--policy", "random", "--output", "{folder}/trace"),
        {
            **COMPILER,
            "--output": ("{folder}/elsewhere",),
            "--policy": ("never",),
            "--corpus": ("{other}",),
            "--seed": (1,),
            "--limit": (1,),
            "--set": ("max_decisions=1",),
        },
    ),
    "explain": (
        ("two/mixed0", "--corpus", "{corpus}", "--policy", "random"),
        {
            **COMPILER,
            "--corpus": ("{other}",),
            "--policy": ("never",),
            "--flags": ("-nonsense",),
            "--html": ("{folder}/page.html",),
            "--limit": (1,),
            "--seed": (1,),
            "--show": (0,),
            "--set": ("reward=nonsense",),
        },
    ),
}
"""For each command the words of a first run, and for each option another value."""

ELSEWHERE = {
    "--json": "every run here has it",
    "--help": "",
    "--jobs": "changes no result",
    "--ray": "needs a cluster: tests/scheduling",
    "--link-view": "needs a recorded link: the last test",
    "--trust-flags": "tests/cli/test_trust_flags.py",
    "--no-trust-flags": "the default",
}


INLINE = """
__attribute__((weak)) int state;
inline int shared(int x) { for (int i = 0; i < x; ++i) state -= state * i + (x % 3); return state + x; }
inline int own_NAME(int x) { for (int i = 0; i < x; ++i) state ^= state * x + (i % 5); return shared(x); }
int NAME(int x) { return own_NAME(x) + shared(x) + shared(x + 1); }
"""


@pytest.fixture(scope="session")
def corpora(make_bitcode: MakeBitcode, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Two folders of modules with equal names and other contents; the names put some of the first to testing."""
    corpus, other = (tmp_path_factory.mktemp(name) for name in ("corpus", "other"))
    for name in ("one/families", "two/mixed"):
        copy_modules(corpus, dict.fromkeys((f"{name}0", f"{name}1"), make_bitcode(f"{name[4:]}.c")))
    copy_modules(other, dict.fromkeys(("two/mixed0", "one/families0"), make_bitcode("calls.c")))
    return {"corpus": str(corpus), "other": str(other)}


@pytest.fixture(scope="session")
def linked(toolchain: Toolchain, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The recorded build of a program of two modules, both of which define a function."""
    folder = tmp_path_factory.mktemp("linked")
    write_files(folder / "project", {f"{name}.cpp": INLINE.replace("NAME", name) for name in ("families0", "mixed0")})
    script = "mkdir one two; $CXX -c families0.cpp -o one/families0.o; $CXX -c mixed0.cpp -o two/mixed0.o;"
    link = "$CXX -nostdlib -static -Wl,-e,_Z9families0i one/families0.o two/mixed0.o -o program"
    return {"corpus": str(record(folder / "project", script + link, toolchain).corpus)}


def outcome(command: str, words: tuple[object, ...], places: dict[str, str]) -> tuple[str, list[str], list[bytes], str]:
    """Return what a run prints and writes, without times and folders."""
    filled = [str(word).format(**places) for word in words]
    try:
        result = run(command, *filled, "--json")
        printed: Any = json.loads(result.stdout, object_hook=timeless) if result.stdout else result.stderr
    except MlgoError as error:
        printed = str(error)
    folder = Path(places["folder"])
    files = sorted(path.relative_to(folder).as_posix() for path in folder.iterdir())
    logs = [path.read_bytes() for path in sorted(folder.rglob("*.log"))]
    is_labelled = (folder / "labels" / "parts").is_dir()
    labels = [table.to_pydict() for _, table in label_tables([folder / "labels"])] if is_labelled else []
    return json.dumps(printed).replace(places["folder"], ""), files, logs, str(labels)


def timeless(value: dict[str, Any]) -> dict[str, Any]:
    return {name: entry for name, entry in value.items() if not name.endswith("seconds")}


@pytest.mark.parametrize("command", TABLE)
def test_another_value_of_an_option_has_an_effect(command: str, corpora: dict[str, str], tmp_path: Path) -> None:
    words, options = TABLE[command]
    seen = {}
    for number, (option, values) in enumerate([("", ()), *options.items()]):
        folder = tmp_path / str(number)
        folder.mkdir()
        seen[option] = outcome(
            command, (*words, *((option, *values) if option else ())), corpora | {"folder": str(folder)}
        )
    assert [option for option in options if seen[option] == seen[""]] == []


@pytest.mark.parametrize("command", TABLE)
def test_the_table_has_every_option(command: str) -> None:
    group: Any = typer.main.get_command(application)
    declared = {option for parameter in group.commands[command].params for option in parameter.opts}
    assert {option for option in declared if option.startswith("--")} <= {*TABLE[command][1], *ELSEWHERE}


MODULES = {"one/families0", "two/mixed0"}
LINKED = {
    command: tuple(f"{word}.o" if word in MODULES else word for word in words) for command, (words, _) in TABLE.items()
}


@pytest.mark.parametrize("command", LINKED)
def test_the_link_view_has_an_effect(command: str, linked: dict[str, str], tmp_path: Path) -> None:
    seen = []
    for option in ("--link-view", "--no-trust-flags"):
        folder = tmp_path / option
        folder.mkdir()
        seen.append(outcome(command, (*LINKED[command], option), linked | {"folder": str(folder)}))
    assert [printed[0] for printed, *_ in seen] in (["{", "{"], ["[", "["]), seen
    assert seen[0] != seen[1]
