"""Names of modules, functions and folders with spaces, quotes, newlines, dashes and bytes that are not UTF-8."""

from pathlib import Path

import pytest

from mlgo_gym import evaluate
from mlgo_gym.corpus.folder import write_command, write_description
from mlgo_gym.evaluation.result import read_episodes
from mlgo_gym.evaluation.trace import trace, validate
from mlgo_gym.make_env import make_environment
from tests.conftest import MakeBitcode, copy_modules
from tests.corpus.untrusted import BENIGN
from tests.fakes.drive import run

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


SPECIAL = (
    ("o d", "o d"),
    (r"o\"d", 'o"d'),
    (r"o\nd", "o\nd"),
    (r"o\377d", "o\udcffd"),
    (r"o\\d", "o\\d"),
    ("-o", "-o"),
)
"""Function names in C, and in `info["callee"]`. A context is text of a log, in which clang replaces other bytes."""

PROGRAM = """
#define EACH(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12) X(13) X(14) X(15) X(16) X(17)
#define LOAD(N) long v##N = p[N];
#define STORE(N) p[N] = v##N + 1;
void special(volatile long *) __asm__("NAME");
void special(volatile long *p) { EACH(LOAD) EACH(STORE) }
void caller(volatile long *p) { special(p); }
"""


def test_a_function_of_any_name_is_an_episode(make_bitcode: MakeBitcode, tmp_path: Path) -> None:
    source = tmp_path / "special.c"
    for name, callee in SPECIAL:
        printed = callee.replace("\udcff", "\ufffd")
        source.write_text(PROGRAM.replace("NAME", name))
        corpus = str(make_bitcode(source))
        with make_environment("mlgo/Inline-v0", {"corpus": corpus, "callee_features": True}) as env:
            infos, last = run(env)
            assert last.terminated
            assert {info["callee"] for info in infos} == {callee}
        with make_environment("mlgo/RegAllocEvict-v0", {"corpus": corpus, "scope": "function"}) as env:
            (module,) = env.corpus.names
            assert printed in env.decisions(env.corpus.module(module))
            infos, last = run(env, module=module, function=printed)
            assert last.terminated
            assert {info["context"] for info in infos} == {printed}
