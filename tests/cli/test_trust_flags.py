"""Every way by which a file reaches a command line: what it may not do there, and what it does with `--trust-flags`.

SECURITY.md has the same table. Each attack runs on the real compiler, and is shown to work if the file is trusted.
"""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from mlgo_gym.compiler.process import run_bounded
from mlgo_gym.corpus.corpus import Module
from mlgo_gym.corpus.flags import check_arguments
from mlgo_gym.corpus.folder import write_description
from mlgo_gym.corpus.recording.links import LINKS_FILE
from mlgo_gym.episode.attribution.recipe import Recipe, keep_recipe
from mlgo_gym.episode.options import with_compile_options
from mlgo_gym.errors import MlgoError, UntrustedError
from mlgo_gym.evaluation.trace import recorded_arguments
from mlgo_gym.llvm.toolchain import Toolchain, bundled_command, find_toolchain
from tests.cli.command import run
from tests.conftest import MakeBitcode, clang_argument
from tests.corpus.untrusted import BENIGN, make_untrusted_corpus

INLINE = "mlgo/Inline-v0"

Words = tuple[str, ...]
Way = Callable[[Path, Path, Words], str]
"""Writes a stranger's file with arguments of `-cc1` to a folder, for the bitcode of a module; returns a command."""


def driver_words(words: Words) -> Words:
    """Return arguments of `-cc1` as driver flags."""
    if words[0] == "-load":
        return (f"-fplugin={words[1]}",)
    return tuple(part for word in words for part in ("-Xclang", word))


def corpus(command: str) -> Way:
    """Return the way of a `.cmd` file beside a module."""

    def write(folder: Path, bitcode: Path, words: Words) -> str:
        make_untrusted_corpus(folder / "corpus", bitcode, words)
        return command.replace("CORPUS", str(folder / "corpus")).replace("OUTPUT", str(folder / "output"))

    return write


def override(*, as_driver: bool) -> Way:
    """Return the way of a description that has the flags of all modules."""

    def write(folder: Path, bitcode: Path, words: Words) -> str:
        path = make_untrusted_corpus(folder / "corpus", bitcode, ())
        flags = ["-Oz", *driver_words(words)] if as_driver else [*BENIGN, *words]
        write_description(path, ["m"], global_command_override=flags)
        return f"corpus verify {path}"

    return write


def results(command: str, change: Callable[[str, Words], object]) -> Way:
    """Return the way of a folder of results, for a change of its `meta.json`."""

    def write(folder: Path, bitcode: Path, words: Words) -> str:
        assert run(*command.split(), "--corpus", bitcode, "--output", folder / "results").exit_code == 0
        path = folder / "results/meta.json"
        path.write_text(json.dumps(change(path.read_text(), words)))
        return f"validate {folder / 'results'}"

    return write


def with_options(text: str, **options: object) -> object:
    meta = json.loads(text)
    # A recorded trust is ignored.
    meta["arguments"]["compile_options"] = {"trust_flags": True, "check_flags": False, **options}
    return meta


def with_policy(text: str, words: Words) -> object:
    meta = json.loads(text)
    meta["policies"] = {name: f"clang:{','.join(words)}" for name in meta["policies"] if name != "default"}
    return meta


def recipe(folder: Path, bitcode: Path, words: Words) -> str:
    """Write a recipe with flags."""
    digest, version = Module("m", bitcode).digest(), find_toolchain().version_text
    keep_recipe(Recipe("m", digest, version, (*BENIGN, *words), 0, 0, {}), folder / "recipes", bitcode.read_bytes())
    return f"recipes verify {folder / 'recipes'}"


EVALUATE = f"evaluate {INLINE} --policy default,clang:-mllvm,-inline-threshold=20"
WAYS: dict[str, Way] = {
    ".cmd, evaluate": corpus(f"evaluate {INLINE} --corpus CORPUS --policy default"),
    ".cmd, trace": corpus(f"trace {INLINE} --corpus CORPUS --output OUTPUT"),
    ".cmd, search": corpus(f"search {INLINE} --corpus CORPUS --compiles 2"),
    ".cmd, label": corpus("label CORPUS --output OUTPUT --compiles 2"),
    ".cmd, explain": corpus("explain m --corpus CORPUS --show 0 --policy always"),
    ".cmd, link-facts": corpus("link-facts CORPUS --output OUTPUT"),
    "override of -cc1 flags": override(as_driver=False),
    "override of driver flags": override(as_driver=True),
    "flags of results": results(EVALUATE, lambda text, words: with_options(text, flags=[*BENIGN, *words])),
    "driver flags of results": results(
        EVALUATE, lambda text, words: with_options(text, flags=["-Oz", *driver_words(words)])
    ),
    "extra_flags of results": results(EVALUATE, lambda text, words: with_options(text, extra_flags=words)),
    "policies of results": results(EVALUATE, with_policy),
    "flags of a trace": results(
        f"trace {INLINE}", lambda text, words: with_options(text, flags=["-Oz", *driver_words(words)])
    ),
    "flags of a recipe": recipe,
}


@pytest.fixture(scope="module")
def attacks(any_toolchain: Toolchain, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Words]]:
    """A file that must not appear, and arguments of `-cc1` with which this clang writes it."""
    folder = tmp_path_factory.mktemp("attack")
    written = folder / "written"
    attacks: list[Words] = [(f"-stats-file={written}",)]
    source = f"""
        int creat(const char *, unsigned);
        __attribute__((constructor)) static void run(void) {{ creat("{written}", 0600); }}
    """
    (folder / "evil.c").write_text(source)
    for command in ("clang -fPIC -w -c evil.c", "ld.lld -shared evil.o -o evil.so"):
        tool, *words = command.split()
        assert run_bounded([*bundled_command(tool), *words], writable=None, folder=folder).returncode == 0
    if not any_toolchain.bundled:  # which is linked statically, and loads nothing
        attacks.insert(0, ("-load", str(folder / "evil.so")))
    return written, attacks


@pytest.mark.parametrize("way", WAYS)
def test_a_file_of_a_stranger_compiles_and_no_more_unless_it_is_trusted(
    way: str,
    any_toolchain: Toolchain,
    attacks: tuple[Path, list[Words]],
    make_bitcode: MakeBitcode,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("MLGO_CLANG", clang_argument(any_toolchain))
    monkeypatch.chdir(tmp_path)
    bitcode = make_bitcode("calls.c", compiler=any_toolchain)
    written, arguments = attacks
    for number, words in enumerate(arguments):
        folder = tmp_path / str(number)
        folder.mkdir()
        command = WAYS[way](folder, bitcode, words).split()
        written.unlink(missing_ok=True)
        try:
            refused = run(*command)
        except UntrustedError as error:
            message = str(error)
        else:  # some commands report it as a failed module
            assert refused.exit_code != 0
            message = refused.output
        assert f"got '{words[0]}" in message or f"got '{driver_words(words)[0]}" in message
        assert not written.exists()
        if "recipe" not in way:  # which nothing can trust
            shutil.rmtree(folder / "output", ignore_errors=True)
            run(*command, "--trust-flags")
            assert written.exists(), "the attack works"


LINKS = (
    {"arguments": ["0.o", "-fplugin=./evil.so"]},
    {"target": "@evil"},
    {"target": "x86_64-linux-musl --config=evil"},
)


@pytest.mark.parametrize("change", LINKS, ids=str)
def test_a_link_of_a_stranger_is_refused(change: dict[str, object], calls: Path, tmp_path: Path) -> None:
    folder = make_untrusted_corpus(tmp_path / "corpus", calls, ())
    part = {"name": "0.o", "sha256": None, "module": "m"}
    link = {
        "output": {"position": None, "named": "a.out", "path": "a.out"},
        "driver": "c",
        "lto": None,
        "folder": ".",
        "arguments": change.get("arguments", ["0.o"]),
        "inputs": [{"position": 0, "named": "0.o", "kind": "object", "parts": [part]}],
    }
    (folder / LINKS_FILE).write_text(json.dumps({"target": change.get("target"), "links": [link]}))
    try:
        message = run("evaluate", INLINE, "--corpus", folder, "--policy", "default", "--link").output
    except MlgoError as error:
        message = str(error)
    assert "expected arguments that only shape the result" in message or "expected the name of a target" in message


def test_a_program_of_a_stranger_does_not_run(calls: Path, tmp_path: Path) -> None:
    folder = make_untrusted_corpus(tmp_path / "corpus", calls, ())
    (folder / "programs.toml").write_text('[programs.p]\nmodules = ["m"]\nruns = [{ arguments = [] }]\n')
    with pytest.raises(MlgoError, match="expected programs of a trusted corpus"):
        run("evaluate", INLINE, "--corpus", folder, "--policy", "default", "--run")


@pytest.mark.parametrize(
    "words",
    [
        "@evil",
        "--config=evil",
        "--amdgpu-arch-tool=./evil",
        "--target=../../evil",
        "-B.",
        "-Xclang -load",
        "-Xclang -triple",
        "-Wp,-MD,evil",
        "-fplugin=./evil.so",
        "-foptimization-record-file=./evil",
        "-mllvm @evil",
        "-ccc-install-dir .",
        "-wrapper ./evil",
        "-specs=evil",
        "-working-directory=.",
        "evil",
    ],
)
def test_the_driver_does_not_see_such_flags_of_a_stranger(words: str) -> None:
    """Even with `-###` it reads files of flags, and starts a program for `--amdgpu-arch-tool=`."""
    check_arguments(("-Oz", "-fPIC", "-mllvm", "-x"), "x")
    with pytest.raises(UntrustedError):
        check_arguments(("-Oz", *words.split()), "x")


def test_the_arguments_of_results_are_checked_before_any_compile() -> None:
    load = ("-load", "./evil.so")
    for options, opened, extra_flags in (
        ({"extra_flags": list(load)}, None, ()),
        ({"flags": list(load)}, None, ()),
        ({}, "builtin,pypi:evil==1.0", ()),
        ({}, None, (load,)),
    ):
        arguments = {"compile_options": options} if options else {}
        with pytest.raises(UntrustedError):
            recorded_arguments("x", INLINE, arguments, corpus=opened, extra_flags=extra_flags, trust_flags=False)
        trusted = recorded_arguments("x", INLINE, arguments, corpus=opened, extra_flags=extra_flags, trust_flags=True)
        assert trusted == with_compile_options(arguments, trust_flags=True, check_flags=False)
    with pytest.raises(UntrustedError, match="imported"):
        recorded_arguments("results", "evil:Evil-v0", {}, corpus=None, trust_flags=False)
