"""The driver names its folders by the rules of the package, which it does not import."""

from __future__ import annotations

from pathlib import Path

import pytest

from mlgo_clang import folders, recipes
from mlgo_gym.attribution import recipe
from mlgo_gym.corpus.commands.driver import NATIVE, driver_options, linker_command
from mlgo_gym.llvm.toolchain import Toolchain
from mlgo_gym.session.process.scratch import scratch_parent
from mlgo_gym.storage.cache import cache_directory
from mlgo_gym.storage.temporary_folders import host_id


def test_the_cache_is_the_packages(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert folders.cache_folder() == str(cache_directory())
    monkeypatch.setenv("MLGO_CACHE", "~/elsewhere")
    assert folders.cache_folder() == str(cache_directory())
    monkeypatch.delenv("MLGO_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert folders.cache_folder() == str(cache_directory()) == str(tmp_path / "mlgo-gym")


def test_scratch_folders_have_names_that_the_package_sweeps() -> None:
    folder = Path(folders.make_scratch())
    folder.rmdir()
    assert folder.parent == Path(scratch_parent())
    assert folders.host_id() == host_id()
    assert folder.name.rpartition("-")[0].endswith(f"-{host_id()}")


def test_recipes_have_one_format() -> None:
    assert (recipes.FIRST_LINE, recipes.SUFFIX) == (recipe.FIRST_LINE, recipe.SUFFIX)


@pytest.mark.parametrize("mode", ["gcc", "g++"])
def test_a_native_recording_uses_the_same_command(mode: str, toolchain: Toolchain, clang: dict[str, list[str]]) -> None:
    language = "c++" if mode == "g++" else "c"
    assert linker_command(toolchain, language, NATIVE) == clang[mode]
    assert [word for word in clang["gcc"] if word.startswith("-")] == driver_options(toolchain, NATIVE)[0]


def test_folders_of_killed_hosts_of_the_package_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folders, "host_id", lambda: "host")
    parent = Path(folders.make_scratch())
    dead = parent.parent / "mlgo-gym-99999999-host-abcdefgh", parent.parent / f"mlgo-gym-99999999-host-{'a' * 16}"
    for folder in dead:
        folder.mkdir()
    Path(folders.make_scratch()).rmdir()
    parent.rmdir()
    assert [folder.exists() for folder in dead] == [True, False]
    dead[0].rmdir()
