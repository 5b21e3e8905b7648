"""`mlgo-gym corpus`, run in this process."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner, Result

from mlgo_gym.cli.application import application
from mlgo_gym.corpus.modules.description import read_description, write_command, write_description
from mlgo_gym.corpus.opening import open_corpus
from mlgo_gym.errors import CorpusError
from mlgo_gym.llvm.toolchain import Toolchain


def run(*arguments: object) -> Result:
    result = CliRunner().invoke(application, ["corpus", *map(str, arguments)])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


@pytest.fixture
def objects(tmp_path: Path, toolchain: Toolchain) -> Path:
    """A build folder with two objects that embed their bitcode and one that does not, and its database."""
    (tmp_path / "x.c").write_text("int f(int x) { return x + 1; }\n")
    commands = []
    for name, flags in (("a.o", ["-fembed-bitcode=all"]), ("b.o", ["-fembed-bitcode=all"]), ("c.o", ["-w"])):
        target = [
            "--target=x86_64-unknown-linux-musl",
            "-Oz",
            "-Xclang",
            *flags,
            "-c",
            str(tmp_path / "x.c"),
            "-o",
            name,
        ]
        result = toolchain.run(["-working-directory", str(tmp_path), *target])
        assert result.returncode == 0, result.stderr
        commands.append({"directory": str(tmp_path), "file": "x.c", "arguments": ["clang", *target]})
    (tmp_path / "all.json").write_text(json.dumps(commands))
    (tmp_path / "good.json").write_text(json.dumps(commands[:2]))
    return tmp_path


@pytest.mark.parametrize("dash", ["-", "_"])
def test_extract_takes_flags_with_dashes_or_underscores(objects: Path, dash: str) -> None:
    options = {"output-dir": objects / "corpus", "input-type": "json", "num-workers": 2, "cmd-filter": "^-Oz$"}
    options |= {"cmd-section-name": ".llvmcmd", "bitcode-section-name": ".llvmbc", "obj-base-dir": "/nowhere"}
    words = [word for name, value in options.items() for word in (f"--{name.replace('-', dash)}", value)]
    result = run("extract", "--input", objects / "good.json", *words, "--verbosity", 0)
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout == f"{objects / 'corpus'}: 2 modules, 0 skipped\n"
    assert read_description(objects / "corpus").modules == ("a.o", "b.o")


@pytest.mark.parametrize(
    ("command", "names"),
    [
        (
            "extract",
            """input input_type output_dir num_workers llvm_objcopy_path obj_base_dir cmd_filter thinlto_build
            cmd_section_name bitcode_section_name verbosity""",
        ),
        ("make", "input_dir output_dir default_args"),
        ("combine", "root_dir"),
    ],
)
def test_every_flag_of_llvms_tools_can_be_spelled_both_ways(command: str, names: str) -> None:
    found: Any = typer.main.get_command(application)
    for word in ("corpus", command):
        found = found.commands[word]
    spellings = {spelling for option in found.params for spelling in option.opts}
    for name in names.split():
        assert {f"--{name}", f"--{name.replace('_', '-')}"} <= spellings


def test_extract_names_what_it_skips_and_exits_with_1(objects: Path) -> None:
    result = run("extract", "--input", objects / "all.json", "--output-dir", objects / "corpus")
    assert result.exit_code == 1
    assert "2 modules, 1 skipped" in result.stdout
    assert "skipped c.o: " in result.stderr


@pytest.mark.parametrize(("verbosity", "lines"), [(0, 2), (-1, 1), (-2, 0)])
def test_verbosity_decides_how_much_is_printed(objects: Path, verbosity: int, lines: int) -> None:
    result = run(
        "extract", "--input", objects / "all.json", "--output-dir", objects / "corpus", "--verbosity", verbosity
    )
    assert result.exit_code == 1
    assert len(result.output.splitlines()) == lines


def test_extract_of_a_local_thinlto_build_takes_no_input(tmp_path: Path) -> None:
    for name in ("1.3.import.bc", "1.thinlto.bc"):
        (tmp_path / name).write_bytes(b"x")
    options = ("--thinlto_build", "local", "--output_dir", tmp_path / "corpus", "--obj_base_dir", tmp_path)
    with pytest.raises(CorpusError, match="expected no --input"):
        run("extract", "--input", "x", *options)
    assert run("extract", *options).exit_code == 0
    assert read_description(tmp_path / "corpus").modules == ("1",)


def test_extract_without_an_input_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match="expected --input"):
        run("extract", "--output-dir", tmp_path / "corpus")


def test_make_splits_default_arguments_into_words(tmp_path: Path, calls: Path) -> None:
    (tmp_path / "bitcode").mkdir()
    shutil.copy(calls, tmp_path / "bitcode" / "x.bc")
    arguments = ("--input_dir", tmp_path / "bitcode", "--output_dir", tmp_path / "corpus")
    assert run("make", *arguments, "--default_args", "-O3 -c '-DX=a b'").exit_code == 0
    assert read_description(tmp_path / "corpus").global_command_override == ("-O3", "-c", "-DX=a b")
    with pytest.raises(CorpusError, match="expected shell words"):
        run("make", *arguments, "--default_args", "'")


def test_combine_describes_the_folder(tmp_path: Path) -> None:
    write_description(tmp_path / "one", ["x"])
    assert run("combine", "--root_dir", tmp_path).exit_code == 0
    assert read_description(tmp_path).modules == ("one/x",)


def test_import_writes_a_corpus(tmp_path: Path, calls: Path, toolchain: Toolchain) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    rows = [{"content": calls.read_bytes(), "language": "c"}, {"content": b"", "language": "c"}]
    parquet.write_table(pyarrow.Table.from_pylist(rows), tmp_path / "x.parquet")
    result = run("import", "--parquet", tmp_path / "x.parquet", "--output-dir", tmp_path / "corpus")
    assert result.exit_code == 1
    assert "1 modules, 1 skipped" in result.stdout
    assert len(open_corpus(tmp_path / "corpus", toolchain=toolchain)) == 1


def test_info_shows_the_corpus(corpus: Path) -> None:
    result = run("info", corpus, "--modules")
    assert result.exit_code == 0
    words = result.stdout.split()
    assert {"modules", "more/calls", "Oz", "x86_64-unknown-linux-musl"} <= set(words)


def test_info_counts_the_decisions_of_every_task(corpus: Path) -> None:
    result = run("info", corpus, "--decisions", "--json")
    content = json.loads(result.stdout)
    assert content["modules"] == 3
    assert sorted(content["decisions"]["inlining"]) == [0, 9, 9]
    assert set(content["decisions"]) == {"inlining", "eviction", "priority"}
    assert "inlining decisions per module" in run("info", corpus, "--decisions").stdout


def test_info_names_problems_and_exits_with_1(corpus: Path, tmp_path: Path) -> None:
    shutil.copy(corpus / "leaf.bc", tmp_path / "leaf.bc")
    write_description(tmp_path, ["leaf", "none"])
    result = run("info", tmp_path)
    assert result.exit_code == 1
    assert "none.bc" in result.stderr


def test_verify_prints_a_line_for_each_problem_and_exits_with_1(corpus: Path, tmp_path: Path) -> None:
    result = run("verify", corpus)
    assert (result.exit_code, len(result.stdout.splitlines())) == (0, 1)
    for name in ("good", "bad"):
        shutil.copy(corpus / "leaf.bc", tmp_path / f"{name}.bc")
    write_command(tmp_path / "bad.cmd", ["-cc1", "-no-such-flag"])
    result = run("verify", tmp_path)
    assert result.exit_code == 1
    lines = result.stdout.splitlines()
    assert lines[0].startswith("bad: ")
    assert lines[1].startswith("good: it has no recorded flags")
    assert "0 of 2 modules are valid" in lines[2]


def test_an_infinite_corpus_is_refused() -> None:
    if shutil.which("csmith") is None:
        pytest.skip("csmith is not installed")
    with pytest.raises(CorpusError, match="is infinite"):
        run("info", "csmith:1")


def test_list_names_the_builtin_corpus_and_the_datasets(toolchain: Toolchain) -> None:
    builtin = open_corpus("builtin", toolchain=toolchain)
    entries = {entry["name"]: entry for entry in json.loads(run("list", "--json", "--clang", "bundled").stdout)}
    assert entries["builtin"]["modules"] == len(builtin)
    assert entries["builtin"]["folder"] == str(builtin.path)
    assert {"zstd", "lz4"} <= set(entries)
    assert "zstd" in run("list").stdout


@pytest.mark.parametrize(
    "command", ["list", "info", "verify", "extract", "make", "combine", "import", "record", "fetch", "catalogue"]
)
def test_every_command_has_a_help_text(command: str) -> None:
    result = run(command, "--help")
    assert result.exit_code == 0
    assert "Usage" in result.stdout
