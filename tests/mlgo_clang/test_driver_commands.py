"""The one reader of the commands that clang's driver prints."""

from __future__ import annotations

import subprocess
from pathlib import Path

from mlgo_clang.driver_commands import cc1_commands, read_commands, shown_commands
from mlgo_gym.corpus.driver import cc1_line
from mlgo_gym.deploy.recipes import cc1_flags
from mlgo_gym.llvm.toolchain import Toolchain

WORDS = ['a "quote"', "a $dollar", "a back\\slash", "\\$", '\\"', "two\nlines", "", "-cc1", "é", " \t"]


def test_each_word_is_read_as_it_was_given_by_every_caller(
    toolchain: Toolchain, clang: dict[str, list[str]], tmp_path: Path
) -> None:
    source = tmp_path / "a.c"
    source.touch()
    for word in WORDS:
        words = ["-c", f"-DX={word}", "-mllvm", f"-pass-remarks={word}", str(source)]
        shown = subprocess.run([*clang["gcc"], *words, "-###"], capture_output=True, check=True)
        (line,) = cc1_commands(shown.stderr.decode())
        assert line[line.index("-D") + 1] == f"X={word}"
        assert line[-1] == str(source)
        assert {f"X={word}", f"-pass-remarks={word}"} <= set(cc1_line(toolchain, words))
        assert f"-pass-remarks={word}" in cc1_flags([*clang["gcc"], *words])


def test_messages_are_no_commands() -> None:
    text = 'clang version 22\nInstalledDir: "/bin"\n "clang" "-cc1" "a.c"\nwarning: "-cc1" unused\n "ld" "-o"\n'
    assert read_commands(text) == [["clang", "-cc1", "a.c"], ["ld", "-o"]]
    assert cc1_commands(text) == [["-cc1", "a.c"]]


def test_a_driver_that_fails_or_is_silent_shows_nothing(tmp_path: Path) -> None:
    driver = tmp_path / "clang"
    driver.write_text("#!/bin/sh\necho ' \"a\"' >&2\nexec sleep 60\n")
    driver.chmod(0o755)
    assert shown_commands([str(driver)], 0.05) == []
    assert shown_commands(["/bin/false"]) == []
