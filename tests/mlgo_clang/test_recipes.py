"""Recipes in builds: found, replayed, and used only for their module."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from mlgo_clang.programs import front_end_bitcode
from mlgo_clang.recipes import RecipeError, parse_recipe
from mlgo_gym.attribution.recipe import Recipe
from mlgo_gym.deploy.program import cc1_flags
from mlgo_gym.deploy.recipe_folder import prune_recipes, stored_recipes, verify_recipe
from mlgo_gym.errors import CorpusError, MlgoError
from mlgo_gym.llvm.toolchain import Toolchain, find_toolchain
from mlgo_gym.search import CorpusSearch
from tests.conftest import PROGRAMS
from tests.mlgo_clang.conftest import DRIVERS, Run, counted, text

PROGRAM = """#include <stdio.h>
static int g(int x) { int s = 0; for (int i = 0; i < x; i++) s += i * x; return s; }
static int h(int x) { return g(x) + g(x + 1); }
int main(int c, char **v) { printf("%d\\n", h(c) + g(c) + h(2)); return h(c) > 3; }
"""
ALONE = "int alone(int x) { return x + 1; }\n"


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


def only_recipe(folder: Path) -> tuple[Path, Recipe]:
    ((path, recipe),) = stored_recipes(folder)
    assert recipe is not None
    return path, recipe


def test_the_result_of_a_search_is_replayed_while_the_module_is_the_same(
    run: Run, project: Path, recipes: Path, searched: Path
) -> None:
    compile_by(run, recipes)
    assert (project / "calls.o").read_bytes() == (searched / "calls.o").read_bytes()
    assert (counted("searched"), counted("compiled by a recipe")) == (0, 1)
    _, recipe = only_recipe(recipes)
    assert text(project / "calls.o") == recipe.text < recipe.baseline_text
    run("--mlgo-policy=default", "-Oz", "-c", "calls.c")
    assert text(project / "calls.o") == recipe.baseline_text
    source = project / "calls.c"
    source.write_text(f"// A comment.\n\n{PROGRAM}")
    compile_by(run, recipes, "-g", "-MMD", "-MF", "calls.d", "-o", "elsewhere.o")
    assert counted("compiled by a recipe") == 2
    assert (project / "elsewhere.o").exists()
    assert (project / "calls.d").exists()
    source.write_text(f"{PROGRAM}int third(int n) {{ return g(n) + 1; }}\n")
    compile_by(run, recipes)
    assert (counted("without a recipe"), counted("compiled by a recipe")) == (1, 2)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["clang-19", "clang-22"])
def test_a_build_by_another_clang_searches_too(name: str, run: Run, project: Path, own_cache: Path) -> None:
    if shutil.which(name) is None:
        pytest.skip(f"{name} is not installed")
    result = run(f"--mlgo-clang={name}", "--mlgo-recipes=found", "--mlgo-search=3", "-Os", "-c", "calls.c")
    assert (result.returncode, result.stderr) == (0, b"")
    path, recipe = only_recipe(project / "found")
    assert (recipe.compiles, verify_recipe(path, recipe, find_toolchain(name))) == (3, "")


def test_a_recipe_of_another_module_is_not_used(run: Run, project: Path, recipes: Path) -> None:
    run("--mlgo-policy=default", "-Oz", "-c", "calls.c")
    plain = (project / "calls.o").read_bytes()
    (path,) = recipes.glob("*.recipe")
    original = path.read_text()
    head, _, body = original.partition("\n\n")
    damages = (
        original.replace(path.stem, "0" * 64),
        f"{head}\n\n{body.splitlines()[0]}\n",
        f"{original}0 1 nowhere\n",
        f"{original}nowhere\n",
        original.replace("mlgo-gym recipe 1", "another"),
        "",
    )
    for number, changed in enumerate(damages, 1):
        path.write_text(changed)
        compile_by(run, recipes)
        assert (project / "calls.o").read_bytes() == plain, changed
        assert counted("recipe failed") == number, changed
    for other in ("", "{}", "mlgo-gym recipe 1", "mlgo-gym recipe 1\ndigest 0\n\nnothing\n"):
        with pytest.raises(RecipeError):
            parse_recipe(other, "0")


def test_a_module_without_a_decision_is_searched_once(run: Run, project: Path, own_cache: Path) -> None:
    """Two builds may search at once, and one may lack a folder for recipes."""
    (project / "alone.c").write_text(ALONE)
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
    assert not only_recipe(project / "recipes")[1].answers
    searches = counted("searched")
    assert run("--mlgo-recipes=recipes", "--mlgo-search=2", "-Oz", "-c", "alone.c").stderr == b""
    assert counted("searched") == searches


def test_a_build_replays_the_result_of_a_search_over_a_corpus(
    run: Run, project: Path, recipes: Path, tmp_path: Path, toolchain: Toolchain
) -> None:
    path, found = only_recipe(recipes)
    module = project / "module.bc"
    module.write_bytes(path.with_suffix(".bc").read_bytes())
    folder = tmp_path / "searched"
    arguments = {"corpus": str(module), "compile_options": {"flags": list(found.flags)}}
    (result,) = CorpusSearch("mlgo/Inline-v0", arguments, "bundles", compiles=4, start="never", recipes=folder).run()
    compile_by(run, folder)
    assert counted("compiled by a recipe") == 1
    assert text(project / "calls.o") == result.cost < result.baseline
    path, recipe = only_recipe(folder)
    assert verify_recipe(path, recipe, toolchain) == ""
    assert all(site.context for site in recipe.actions)


@pytest.fixture(scope="session")
def searched_evictions(clang: dict[str, list[str]], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder with the recipe of a search of evictions for `calls.c` at -O2, a copy of `mixed.c`."""
    pytest.importorskip("capstone")
    folder = tmp_path_factory.mktemp("searched")
    shutil.copy(PROGRAMS / "mixed.c", folder / "calls.c")
    arguments = ["-O2", "-c", "calls.c"]
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        (folder / "module.bc").write_bytes(front_end_bitcode(clang["gcc"], arguments))
        options = {"flags": list(cc1_flags([*clang["gcc"], *arguments]))}
    settings = {"corpus": str(folder / "module.bc"), "metric": "estimated-instructions", "compile_options": options}
    recipes = folder / "recipes"
    (result,) = CorpusSearch("mlgo/RegAllocEvict-v0", settings, "functions", compiles=8, recipes=recipes).run()
    assert result.cost < result.baseline
    return recipes


@pytest.fixture
def evictions(searched_evictions: Path, project: Path, own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Folder with that recipe, for the program in the project's folder, which is the working folder."""
    shutil.copy(PROGRAMS / "mixed.c", project / "calls.c")
    shutil.copytree(searched_evictions, project.parent / "evictions")
    monkeypatch.chdir(project)
    return project.parent / "evictions"


PLAIN = ("--mlgo-levels=2", "--mlgo-policy=default", "-O2", "-c", "calls.c", "-o")
EVICTIONS = ("--mlgo-levels=2", "--mlgo-policy=default", "--mlgo-eviction-policy=never_evict", "-O2", "-c", "calls.c")


def test_a_build_replays_the_evictions_that_a_search_found(run: Run, evictions: Path, toolchain: Toolchain) -> None:
    path, recipe = only_recipe(evictions)
    assert verify_recipe(path, recipe, toolchain) == ""
    assert run(*PLAIN, "plain.o").returncode == 0
    assert run(f"--mlgo-recipes={evictions}", "--mlgo-strict", *PLAIN, "recipe.o").returncode == 0
    assert counted("compiled by a recipe") == 1
    assert Path("plain.o").read_bytes() != Path("recipe.o").read_bytes()
    assert text(Path("recipe.o")) == recipe.text
    # A column that is illegal is never taken.
    head, _, body = path.read_text().partition("\n\n")
    lines = [line.split(" ", 2) for line in body.splitlines()]
    others = "\n".join(f"{visit} {','.join('31' for _ in columns.split(','))} {rest}" for visit, columns, rest in lines)
    path.write_text(f"{head}\n\n{others}\n")
    assert run(f"--mlgo-recipes={evictions}", *PLAIN, "recipe.o").returncode == 0
    assert counted("recipe failed") == 1
    assert counted("because clang cannot take column 31 of the recipe here; search again") == 1
    assert Path("plain.o").read_bytes() == Path("recipe.o").read_bytes()


def test_a_build_searches_evictions_and_a_changed_file_keeps_those_of_its_unchanged_functions(
    run: Run, evictions: Path, project: Path
) -> None:
    path, first = only_recipe(evictions)
    source = project / "calls.c"
    source.write_text(source.read_text() + "int third(int n) { return n + 1; }\n")
    found = []
    for folder in ("anew", str(evictions)):
        result = run(*EVICTIONS, f"--mlgo-recipes={folder}", "--mlgo-search=3", "--mlgo-strict")
        assert (result.returncode, result.stderr) == (0, b"")
        found += [recipe for _, recipe in stored_recipes(project / folder) if recipe and recipe.digest != first.digest]
    anew, with_known_functions = found
    assert (counted("searched"), counted("compiled by a recipe")) == (2, 2)
    assert with_known_functions.functions == first.functions
    assert with_known_functions.change == pytest.approx(first.change, abs=1e-3)
    assert anew.change > with_known_functions.change
    path.unlink()
    run(*EVICTIONS, f"--mlgo-recipes={evictions}", "--mlgo-strict")
    assert counted("compiled by a recipe") == 3
    refused = run("--mlgo-policy=never", "--mlgo-eviction-policy=never_evict", "--mlgo-search=3", "-O2",
                  "--mlgo-recipes=found", "-c", "calls.c")  # fmt: skip
    assert b"expected --mlgo-policy=default for a search of evictions" in refused.stderr
    assert refused.returncode != 0


def test_recipes_are_verified_and_pruned(recipes: Path, toolchain: Toolchain) -> None:
    path, recipe = only_recipe(recipes)
    assert verify_recipe(path, recipe, toolchain) == ""
    only_shape = "expected arguments that only shape code"
    others = [
        (replace(recipe, actions=dict(list(recipe.actions.items())[:1])), "requests, got more"),
        (replace(recipe, text=1), "expected 1 bytes, got"),
        (replace(recipe, clang="1.2.3"), "expected clang 1.2.3 for this recipe, got"),
        (replace(recipe, flags=(*recipe.flags, "-load", "evil.so")), only_shape),
        (replace(recipe, flags=(*recipe.flags, "-o", "elsewhere")), only_shape),
        (replace(recipe, flags=(*recipe.flags, "-mllvm", "-pass-remarks-output=elsewhere")), only_shape),
    ]
    for other, message in others:
        assert message in verify_recipe(path, other, toolchain)
    shutil.copy(path.with_suffix(".bc"), recipes / "orphan.bc")
    shutil.copy(path, recipes / f"{'0' * 64}.recipe")
    assert prune_recipes(recipes, days=30) == 1
    assert sorted(file.suffix for file in recipes.iterdir()) == [".bc", ".recipe"]
    path.with_suffix(".bc").write_bytes(b"BC")
    assert verify_recipe(path, recipe, toolchain).startswith(f"expected bitcode with SHA-256 {recipe.digest}")
    path.with_suffix(".bc").unlink()
    assert verify_recipe(path, recipe, toolchain) == "its module is missing"
    assert prune_recipes(recipes, days=0) == 1
    assert list(recipes.iterdir()) == []
    with pytest.raises(MlgoError, match="number of days ≥ 0, got -1"):
        prune_recipes(recipes, days=-1)
    with pytest.raises(CorpusError, match="expected a folder of recipes"):
        list(stored_recipes(recipes / "nowhere"))
