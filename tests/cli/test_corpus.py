"""`mlgo-gym corpus`: output and exit status of its commands."""

import os
from pathlib import Path

import pytest

from mlgo_gym.corpus import driver, open_corpus
from mlgo_gym.corpus.compilation import plan
from mlgo_gym.corpus.folder import write_command, write_description
from mlgo_gym.llvm.toolchain import Toolchain
from tests.cli.command import run, run_json
from tests.conftest import copy_modules


def test_info_and_verify_name_problems_and_exit_with_1(corpus: Path, tmp_path: Path) -> None:
    assert {"modules", "Oz", "x86_64-unknown-linux-musl"} <= set(run("corpus", "info", corpus).stdout.split())
    assert run_json("corpus", "info", corpus)["modules"] == 3
    result = run("corpus", "verify", corpus)
    assert (result.exit_code, len(result.stdout.splitlines())) == (0, 1)
    copy_modules(tmp_path, dict.fromkeys(("good", "bad"), corpus / "leaf.bc"))
    write_command(tmp_path / "bad.cmd", ["-cc1", "-no-such-flag"])
    result = run("corpus", "verify", tmp_path)
    bad, good, total = result.stdout.splitlines()
    assert (result.exit_code, bad.partition(" ")[0], "0 of 2 modules are valid" in total) == (1, "bad:", True)
    assert good.startswith("good: it has no recorded flags")
    write_description(tmp_path, ["good", "none"])
    result = run("corpus", "info", tmp_path)
    assert (result.exit_code, "none.bc" in result.stderr) == (1, True)


@pytest.mark.parametrize(
    ("script", "status", "messages"),
    [
        (
            "cc -c picky.c && cc -c good.c -o build/good.o",
            1,
            (
                *("1 modules, 1 lines of source, -Os", "1 compiles could not be recorded"),
                *("picky.c:", "only without optimisation"),
            ),
        ),
        ("cc -c good.c -o build/good.o; cc -c bad.c || exit 7", 7, ("the build ended with status 7",)),
    ],
)
def test_a_recording_counts_modules_and_passes_the_status_of_a_failed_build_on(
    script: str, status: int, messages: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "good.c").write_text("int good(int x) { return x + 1; }\n")
    (tmp_path / "bad.c").write_text("int bad(void) { return missing; }\n")
    (tmp_path / "picky.c").write_text("#ifdef __OPTIMIZE__\n#error only without optimisation\n#endif\n")
    (tmp_path / "build").mkdir()
    monkeypatch.chdir(tmp_path)
    options = ("--output", "out", "--root", "build", "--optimize", "Os")
    result = run("corpus", "record", *options, "--", "sh", "-c", script)
    assert result.exit_code == status
    assert [message for message in messages if message not in result.stderr] == []
    assert Path("out/good.o.bc").exists()


@pytest.mark.parametrize("expected", ["native", "portable"])
def test_a_recording_is_of_this_machine_if_that_has_headers_and_a_linker(
    expected: str, toolchain: Toolchain, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file.c").write_text("const char *file(void) { return __FILE__; }\n")
    for name in ("headers/stdio.h", "bin/ld"):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).touch(0o755)
    monkeypatch.setattr(driver, "SYSTEM_HEADERS", tmp_path / ("headers" if expected == "native" else "none"))
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    monkeypatch.chdir(tmp_path)
    result = run("corpus", "record", "--output", "out", "--", "sh", "-c", f"cc -c {tmp_path}/file.c")
    assert f"target {expected}" in result.stderr
    with plan(open_corpus("out", toolchain=toolchain)[0], toolchain).session() as session:
        object_bytes = session.finish(30).object_bytes
    # A portable recording is equal in every folder, and a build is not.
    assert (f"{tmp_path}/file.c".encode() in object_bytes) == (expected == "native")
