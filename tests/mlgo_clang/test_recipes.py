"""Recipes in builds: found, replayed, and used only for their module."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from mlgo_clang.programs import front_end_bitcode
from mlgo_clang.recipes import RecipeError, parse_recipe
from mlgo_gym.deploy.program import cc1_flags
from mlgo_gym.deploy.recipe_folder import prune_recipes, stored_recipes, verify_recipe
from mlgo_gym.errors import CorpusError, MlgoError
from mlgo_gym.llvm.object_file import object_sizes
from mlgo_gym.llvm.toolchain import Toolchain, find_toolchain
from mlgo_gym.search import CorpusSearch
from tests.conftest import PROGRAMS
from tests.mlgo_clang.conftest import DRIVERS, Run, counted

PROGRAM = """#include <stdio.h>
static int g(int x) { int s = 0; for (int i = 0; i < x; i++) s += i * x; return s; }
static int h(int x) { return g(x) + g(x + 1); }
int main(int c, char **v) { printf("%d\\n", h(c) + g(c) + h(2)); return h(c) > 3; }
"""


@pytest.fixture(scope="session")
def searched(cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a program, its object, and the recipe of a search that starts from `never`."""
    folder = tmp_path_factory.mktemp("searched")
    (folder / "calls.c").write_text(PROGRAM)
    arguments = ["--mlgo-recipes=recipes", "--mlgo-policy=never", "--mlgo-search=5", "-Oz", "-c", "calls.c"]
    subprocess.run([str(DRIVERS["gcc"]), *arguments], cwd=folder, check=True)
    return folder


@pytest.fixture
def recipes(searched: Path, project: Path, own_cache: Path) -> Path:
    """Folder with the recipe of the program in the project's folder."""
    shutil.copy(searched / "calls.c", project)
    shutil.copytree(searched / "recipes", project.parent / "recipes")
    return project.parent / "recipes"


def compile_by(run: Run, recipes: Path, *arguments: str) -> None:
    result = run(f"--mlgo-recipes={recipes}", "--mlgo-policy=default", "-Oz", *arguments, "-c", "calls.c")
    assert (result.returncode, result.stderr) == (0, b"")


def test_the_result_of_a_search_is_replayed(run: Run, project: Path, recipes: Path, searched: Path) -> None:
    found = (searched / "calls.o").read_bytes()
    compile_by(run, recipes)
    assert (project / "calls.o").read_bytes() == found
    assert (counted("searched"), counted("compiled by a recipe")) == (0, 1)
    ((_, recipe),) = stored_recipes(recipes)
    assert recipe is not None
    assert object_sizes(found).text == recipe.text < recipe.baseline_text
    run("--mlgo-policy=default", "-Oz", "-c", "calls.c")
    assert object_sizes((project / "calls.o").read_bytes()).text == recipe.baseline_text


@pytest.mark.parametrize("name", ["clang-19", "clang-22"])
def test_a_build_by_another_clang_searches_too(name: str, run: Run, project: Path, own_cache: Path) -> None:
    if shutil.which(name) is None:
        pytest.skip(f"{name} is not installed")
    result = run(f"--mlgo-clang={name}", "--mlgo-recipes=found", "--mlgo-search=3", "-Os", "-c", "calls.c")
    assert (result.returncode, result.stderr) == (0, b"")
    ((path, recipe),) = stored_recipes(project / "found")
    assert recipe is not None
    assert (recipe.compiles, verify_recipe(path, recipe, find_toolchain(name))) == (3, "")


def test_a_change_that_keeps_the_module_keeps_its_recipe(run: Run, project: Path, recipes: Path) -> None:
    source = project / "calls.c"
    source.write_text(f"// A comment.\n\n{source.read_text()}")
    compile_by(run, recipes, "-g", "-MMD", "-MF", "calls.d", "-o", "elsewhere.o")
    assert counted("compiled by a recipe") == 1
    assert (project / "elsewhere.o").exists()
    assert (project / "calls.d").exists()


def test_a_changed_module_is_compiled_with_the_policy_and_counted(run: Run, project: Path, recipes: Path) -> None:
    source = project / "calls.c"
    source.write_text(source.read_text() + "int third(int n) { return g(n) + 1; }\n")
    compile_by(run, recipes)
    assert (counted("without a recipe"), counted("compiled by a recipe")) == (1, 0)


def test_a_recipe_of_another_module_is_not_used(run: Run, project: Path, recipes: Path) -> None:
    run("--mlgo-policy=default", "-Oz", "-c", "calls.c")
    plain = (project / "calls.o").read_bytes()
    (path,) = recipes.glob("*.recipe")
    original = path.read_text()
    head, _, body = original.partition("\n\n")
    for changed in (
        original.replace(path.stem, "0" * 64),
        f"{head}\n\n{body.splitlines()[0]}\n",
        f"{original}0 1 nowhere\n",
        f"{original}0 2 nowhere\n",
        f"{original}nowhere\n",
        original.replace("mlgo-gym recipe 1", "another"),
        head,
        "",
    ):
        path.write_text(changed)
        before = counted("recipe failed")
        compile_by(run, recipes)
        assert (project / "calls.o").read_bytes() == plain, changed
        assert counted("recipe failed") == before + 1, changed


def test_a_module_without_a_decision_has_a_recipe_too(run: Run, project: Path, recipes: Path) -> None:
    (project / "calls.c").write_text("int alone(int x) { return x + 1; }\n")
    for _ in range(2):
        result = run(f"--mlgo-recipes={recipes}", "--mlgo-policy=default", "--mlgo-search=5", "-Oz", "-c", "calls.c")
        assert (result.returncode, result.stderr) == (0, b"")
    assert counted("searched") == 1
    assert sorted(not recipe.answers for _, recipe in stored_recipes(recipes) if recipe) == [False, True]


def test_two_builds_may_search_at_once_and_one_may_lack_a_folder_for_recipes(project: Path, own_cache: Path) -> None:
    (project / "alone.c").write_text("int alone(int x) { return x + 1; }\n")
    places = {"first.o": "recipes", "second.o": "recipes", "third.o": "/dev/null/recipes"}
    processes = [
        subprocess.Popen(
            [DRIVERS["gcc"], f"--mlgo-recipes={place}", "--mlgo-search=2", "-Oz", "-c", "alone.c", "-o", name],
            cwd=project,
        )
        for name, place in places.items()
    ]
    assert [process.wait() for process in processes] == [0, 0, 0]
    assert len({(project / name).read_bytes() for name in places}) == 1
    assert sorted(path.suffix for path in (project / "recipes").iterdir()) == [".bc", ".recipe"]
    assert counted("recipe failed") == 1


def test_a_build_replays_the_result_of_a_search_over_a_corpus(
    run: Run, project: Path, recipes: Path, clang: dict[str, list[str]], tmp_path: Path, toolchain: Toolchain
) -> None:
    ((path, found),) = stored_recipes(recipes)
    assert found is not None
    module = project / "module.bc"
    module.write_bytes(path.with_suffix(".bc").read_bytes())
    folder = tmp_path / "searched"
    arguments = {"corpus": str(module), "compile_options": {"flags": list(found.flags)}}
    (result,) = CorpusSearch("mlgo/Inline-v0", arguments, "bundles", compiles=4, start="never", recipes=folder).run()
    compile_by(run, folder)
    assert counted("compiled by a recipe") == 1
    assert object_sizes((project / "calls.o").read_bytes()).text == result.cost < result.baseline
    ((path, recipe),) = stored_recipes(folder)
    assert recipe is not None
    assert verify_recipe(path, recipe, toolchain) == ""
    assert all(site.context for site in recipe.actions)


@pytest.fixture
def evictions(
    project: Path, own_cache: Path, clang: dict[str, list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Path:
    """Folder with the recipe of a search of evictions for the project's program at -O2."""
    pytest.importorskip("capstone")
    shutil.copy(PROGRAMS / "mixed.c", project / "calls.c")
    monkeypatch.chdir(project)
    arguments = ["-O2", "-c", "calls.c"]
    (tmp_path / "module.bc").write_bytes(front_end_bitcode(clang["gcc"], arguments))
    options = {"flags": list(cc1_flags([*clang["gcc"], *arguments]))}
    found = {"corpus": str(tmp_path / "module.bc"), "metric": "estimated-instructions", "compile_options": options}
    folder = tmp_path / "evictions"
    (result,) = CorpusSearch("mlgo/RegAllocEvict-v0", found, "functions", compiles=8, recipes=folder).run()
    assert result.cost < result.baseline
    return folder


def test_a_build_replays_the_evictions_that_a_search_found(run: Run, evictions: Path, toolchain: Toolchain) -> None:
    ((path, recipe),) = stored_recipes(evictions)
    assert recipe is not None
    assert verify_recipe(path, recipe, toolchain) == ""
    words = ["--mlgo-levels=2", "--mlgo-policy=default", "--mlgo-strict", "-O2", "-c", "calls.c", "-o"]
    assert run(*words, "plain.o").returncode == run(f"--mlgo-recipes={evictions}", *words, "recipe.o").returncode == 0
    assert counted("compiled by a recipe") == 1
    assert Path("plain.o").read_bytes() != Path("recipe.o").read_bytes()
    assert object_sizes(Path("recipe.o").read_bytes()).text == recipe.text


EVICTIONS = ("--mlgo-levels=2", "--mlgo-policy=default", "--mlgo-eviction-policy=never_evict", "-O2", "-c", "calls.c")


def test_a_build_searches_evictions_and_a_changed_file_keeps_those_of_its_unchanged_functions(
    run: Run, evictions: Path, project: Path
) -> None:
    ((path, first),) = stored_recipes(evictions)
    assert first is not None
    source = project / "calls.c"
    source.write_text(source.read_text() + "int third(int n) { return n + 1; }\n")
    found = {}
    for name, folder in {"searched anew": "anew", "with known functions": str(evictions)}.items():
        result = run(*EVICTIONS, f"--mlgo-recipes={folder}", "--mlgo-search=3", "--mlgo-strict")
        assert (result.returncode, result.stderr) == (0, b"")
        (found[name],) = (each for _, each in stored_recipes(project / folder) if each and each.digest != first.digest)
    assert (counted("searched"), counted("compiled by a recipe")) == (2, 2)
    known = found["with known functions"]
    assert known.functions == first.functions
    assert known.change == pytest.approx(first.change, abs=1e-3)
    assert found["searched anew"].change > known.change
    path.unlink()
    run(*EVICTIONS, f"--mlgo-recipes={evictions}", "--mlgo-strict")
    assert counted("compiled by a recipe") == 3


def test_a_search_of_evictions_keeps_the_inlining_of_clang(run: Run) -> None:
    words = ("--mlgo-eviction-policy=never_evict", "--mlgo-recipes=found", "--mlgo-search=3", "-O2", "-c", "calls.c")
    result = run("--mlgo-policy=never", *words)
    assert b"expected --mlgo-policy=default for a search of evictions" in result.stderr
    assert result.returncode != 0


def test_a_column_that_is_illegal_is_never_taken(run: Run, evictions: Path) -> None:
    ((path, _),) = stored_recipes(evictions)
    head, _, body = path.read_text().partition("\n\n")
    lines = [line.split(" ", 2) for line in body.splitlines()]
    others = "\n".join(f"{visit} {','.join('31' for _ in columns.split(','))} {rest}" for visit, columns, rest in lines)
    path.write_text(f"{head}\n\n{others}\n")
    words = ["--mlgo-levels=2", "--mlgo-policy=default", "-O2", "-c", "calls.c", "-o"]
    assert run(*words, "plain.o").returncode == run(f"--mlgo-recipes={evictions}", *words, "recipe.o").returncode == 0
    assert counted("recipe failed") == 1
    assert counted("because clang cannot take column 31 of the recipe here; search again") == 1
    assert Path("plain.o").read_bytes() == Path("recipe.o").read_bytes()


def test_flags_of_an_untrusted_recipe_are_run_only_if_they_shape_code(recipes: Path, toolchain: Toolchain) -> None:
    ((path, recipe),) = stored_recipes(recipes)
    assert recipe is not None
    for flags in (("-load", "evil.so"), ("-o", "elsewhere"), ("-mllvm", "-pass-remarks-output=elsewhere")):
        harmful = replace(recipe, flags=(*recipe.flags, *flags))
        assert "expected arguments that only shape code" in verify_recipe(path, harmful, toolchain)


def test_recipes_are_verified_and_pruned(recipes: Path, toolchain: Toolchain) -> None:
    ((path, recipe),) = stored_recipes(recipes)
    assert recipe is not None
    assert verify_recipe(path, recipe, toolchain) == ""
    fewer = replace(recipe, actions=dict(list(recipe.actions.items())[:1]))
    assert "requests, got more" in verify_recipe(path, fewer, toolchain)
    assert "expected 1 bytes, got" in verify_recipe(path, replace(recipe, text=1), toolchain)
    assert "expected clang 1.2.3 for this recipe, got" in verify_recipe(path, replace(recipe, clang="1.2.3"), toolchain)
    shutil.copy(path.with_suffix(".bc"), recipes / "orphan.bc")
    shutil.copy(path, recipes / f"{'0' * 64}.recipe")
    assert prune_recipes(recipes, days=30) == 1
    assert sorted(found.suffix for found in recipes.iterdir()) == [".bc", ".recipe"]
    path.with_suffix(".bc").write_bytes(b"BC")
    assert verify_recipe(path, recipe, toolchain) == (
        f"expected bitcode with SHA-256 {recipe.digest} for this recipe, got module {recipe.module!r} with "
        f"{hashlib.sha256(b'BC').hexdigest()}: the source, its flags or the front end changed; search again"
    )
    path.with_suffix(".bc").unlink()
    assert verify_recipe(path, recipe, toolchain) == "its module is missing"
    assert prune_recipes(recipes, days=0) == 1
    assert list(recipes.iterdir()) == []
    with pytest.raises(MlgoError, match="number of days ≥ 0, got -1"):
        prune_recipes(recipes, days=-1)
    with pytest.raises(CorpusError, match="expected a folder of recipes"):
        list(stored_recipes(recipes / "nowhere"))


@pytest.mark.parametrize("text", ["", "{}", "mlgo-gym recipe 1", "mlgo-gym recipe 1\ndigest 0\n\nnothing\n"])
def test_other_text_is_refused(text: str) -> None:
    with pytest.raises(RecipeError):
        parse_recipe(text, "0")
