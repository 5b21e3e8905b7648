"""Names of modules, functions and folders with spaces, quotes, newlines, dashes and bytes that are not UTF-8."""

from pathlib import Path
from typing import Any

import pytest

from mlgo_gym import evaluate
from mlgo_gym.corpus.folder import write_command, write_description
from mlgo_gym.evaluation.result import read_episodes
from mlgo_gym.evaluation.trace import trace, validate
from mlgo_gym.llvm.toolchain import Toolchain
from mlgo_gym.make_env import make_environment
from tests.conftest import PROGRAMS, copy_modules
from tests.corpus.untrusted import BENIGN
from tests.fakes.drive import run
from tests.sampling import one_of_each

pytestmark = pytest.mark.usefixtures("nothing_is_left")

NAMES = [
    "a b",
    'it\'s "so"',
    "two\nlines",
    "-o",
    "--version",
    "@arguments",
    "\udcff\udcfe",
    "ünï/côdé",
    "$(touch pwned)",
    "%s{0}",
    "a,b",
    "tab\there",
    "[red]x[/red]",
    ";ls",
    "*",
]


def test_every_name_is_evaluated_and_replayed(calls: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    folders = ["corpus", "a b", "two\nlines", "-dash", "\udcff", "q'\"", "@x"]
    for folder in folders:
        names = NAMES if folder == "corpus" else ["a b"]
        copy_modules(Path(folder), dict.fromkeys(names, calls))
        for name in names:
            write_command(Path(folder, f"{name}.cmd"), BENIGN)
        write_description(Path(folder), names)
        corpus, results = f"./{folder}", Path("..", "results", folder)
        result = evaluate("mlgo/Inline-v0", policies=["always"], corpus=corpus, output=results)
        assert sorted(episode.module for episode in result.episodes) == sorted(names)
        assert all(episode.error is None for episode in result.episodes)
        assert sorted(episode.module for episode in read_episodes(results)) == sorted(names)
    assert {path.name for path in tmp_path.iterdir() if path.name != "cache"} == set(folders)
    trace("mlgo/Inline-v0", "always", output=tmp_path / "trace", corpus="./corpus")
    assert [verdict.problem for verdict in validate(tmp_path / "trace")] == [""] * len(NAMES)


SPECIAL = {
    "blank": ("o d", "o d"),
    "quote": (r"o\22d", 'o"d'),
    "line": (r"o\0Ad", "o\nd"),
    "no-utf-8": (r"o\FFd", "o\ufffdd"),
    "backslash": (r"o\5Cd", "o\\d"),
    "dash": ("-o", "-o"),
}
"""Function names in LLVM assembly and in the output of clang."""


@pytest.fixture(scope="module")
def assembly(toolchain: Toolchain, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Two programs as LLVM's assembly."""
    folder = tmp_path_factory.mktemp("assembly")
    texts = {}
    for program in ("calls", "spills"):
        words = ["--target=x86_64-unknown-linux-musl", "-Oz", "-fPIC", "-Xclang", "-disable-llvm-passes", "-emit-llvm"]
        output = folder / f"{program}.ll"
        done = toolchain.run([*words, "-S", str(PROGRAMS / f"{program}.c"), "-o", str(output)])
        assert done.returncode == 0, done.stderr
        texts[program] = output.read_text()
    return texts


TASKS = [("Inline", "calls", "mix"), ("RegAllocEvict", "spills", "straight")]


@pytest.mark.parametrize(
    ("task", "program", "function", "name"),
    one_of_each(
        [(*TASKS[number % 2 ^ other], name) for other in (0, 1) for number, name in enumerate(SPECIAL)],
        lambda case: case[3],
        name=lambda case: f"{case[0]}-{case[3]}",
    ),
)
def test_a_function_of_any_name_is_an_episode(
    task: str, program: str, function: str, name: str, assembly: dict[str, str], toolchain: Toolchain, tmp_path: Path
) -> None:
    written, printed = SPECIAL[name]
    text, bitcode = tmp_path / "special.ll", tmp_path / "special.bc"
    text.write_text(assembly[program].replace(f"@{function}(", f'@"{written}"('))
    words = ["-cc1", "-emit-llvm-bc", "-disable-llvm-passes", "-x", "ir", str(text), "-o", str(bitcode)]
    assert toolchain.run(words).returncode == 0
    inlines = task == "Inline"
    arguments = {"callee_features": True} if inlines else {"scope": "function", "max_decisions": 20}
    with make_environment(f"mlgo/{task}-v0", {"corpus": str(bitcode), **arguments}) as env:
        (module,) = env.corpus.names
        assert inlines or printed in env.decisions(env.corpus.module(module))
        key, shown = "context", printed
        if inlines:  # the name of a callee comes from LLVM's assembly
            key, shown = "callee", written.replace(r"\5C", r"\\")
        chosen: Any = {} if inlines else {"function": printed}
        infos, last = run(env, module=module, **chosen)
        assert last.terminated
        assert shown in {info[key] for info in infos}
