"""ThinLTO back ends of a recorded build."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from typer.testing import CliRunner

from mlgo_gym.cli.application import application
from mlgo_gym.corpus.compilation import plan
from mlgo_gym.corpus.inspection import verify
from mlgo_gym.corpus.opening import open_corpus
from mlgo_gym.corpus.recording.extract import read_elf_sections
from mlgo_gym.corpus.thinlto_back_ends import record_back_ends
from mlgo_gym.errors import CorpusError
from mlgo_gym.llvm.toolchain import Toolchain, bundled_command
from tests.corpus.recording.test_extract_thinlto import SOURCES

BUILD = (
    "for f in user lib/helper lib/unused; do $CC -O2 -fPIC -flto=thin -c $f.c -o $f.o; done; "
    "ar rcs libhelp.a lib/helper.o lib/unused.o; $CC -shared -flto=thin user.o libhelp.a -o thin.so"
)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory: a module that calls another, and an unused one."""
    folder = tmp_path / "project"
    for name, text in {**SOURCES, "lib/unused.c": "int unused(void) { return 7; }\n"}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    monkeypatch.chdir(folder)
    return folder


def run(*words: object) -> str:
    """Run `mlgo-gym corpus` and check its exit status."""
    result = CliRunner().invoke(application, ["corpus", *map(str, words)])
    assert result.exit_code == 0, f"{result.output}{result.exception}"
    return result.stderr


@pytest.mark.slow
def test_a_recorded_thin_link_gives_its_back_ends(project: Path, toolchain: Toolchain) -> None:
    output = run("record", "--output", "../corpus", "--back-ends", "../back", "--", "sh", "-ec", BUILD)
    assert "1 link is in links.json" in output
    assert "back: 2 back ends, 1 skipped" in output.replace("\n", "")
    corpus = open_corpus(project.parent / "back", toolchain=toolchain)
    assert list(corpus.names) == ["user.o", "lib/helper.o"]
    assert verify(corpus, toolchain) == []
    assert corpus.module("user.o").metadata["source"] == "user.c"
    assert b"helper" in corpus.module("user.o").bitcode.read_bytes()
    assert _text(project, corpus.module("user.o").name, toolchain) == _distributed(project, toolchain)
    plain = run("back-ends", "../corpus", "--output", "../again", "--link", "thin.so")
    assert "lib/unused.o: the link does not use it" in plain.replace("\n", " ")
    with pytest.raises(CorpusError, match="got 'other'"):
        record_back_ends(project.parent / "corpus", project.parent / "x", toolchain, links=["other"])


@pytest.mark.slow
def test_a_build_without_thinlto_says_so(project: Path, toolchain: Toolchain) -> None:
    run("record", "--output", "../corpus", "--", "sh", "-ec", "$CC -c user.c; $CC -shared -fPIC lib/helper.c -o h.so")
    with pytest.raises(CorpusError, match=r"expected ThinLTO links, got none in 1 links.*h\.so"):
        record_back_ends(project.parent / "corpus", project.parent / "back", toolchain)
    assert not (project.parent / "back").exists()


def _text(project: Path, name: str, toolchain: Toolchain) -> tuple[bytes, ...]:
    """Return the code of a back end as it is compiled from the corpus."""
    module = open_corpus(project.parent / "back", toolchain=toolchain).module(name)
    subprocess.run([*plan(module, toolchain).command, "-o", "again.o"], check=True, cwd=project)
    return read_elf_sections(project / "again.o", (".text",))


def _distributed(project: Path, toolchain: Toolchain) -> tuple[bytes, ...]:
    """Return the code of `user.o` as a distributed ThinLTO build at -Oz makes it, by hand."""
    flags = ["--target=x86_64-linux-gnu", "-Oz", "-fPIC", "-c"]
    for name in ("user", "lib/helper"):
        subprocess.run([*toolchain.command, *flags, "-flto=thin", f"{name}.c", "-o", f"{name}.thin.o"], check=True)
    words = ["-shared", "--thinlto-index-only", "user.thin.o", "lib/helper.thin.o", "-o", "x.so"]
    subprocess.run([*bundled_command("ld.lld"), *words], check=True)
    index = ["-x", "ir", "user.thin.o", "-fthinlto-index=user.thin.o.thinlto.bc", "-o", "native.o"]
    subprocess.run([*toolchain.command, *flags, *index], check=True)
    return read_elf_sections(project / "native.o", (".text",))
