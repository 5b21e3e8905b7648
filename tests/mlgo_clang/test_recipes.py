"""Recipes in builds: found, replayed, and used only for their module."""

import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from mlgo_clang.programs import front_end_bitcode
from mlgo_gym.episode.attribution.recipe import Recipe, stored_recipes
from mlgo_gym.errors import CorpusError
from mlgo_gym.llvm.link_facts import LinkFacts
from mlgo_gym.llvm.toolchain import Toolchain
from mlgo_gym.search import CorpusSearch
from mlgo_gym.search.verification import verify_recipe
from tests.mlgo_clang.conftest import DRIVERS, Run, counted, text
from tests.ways_to_answer import cc1_flags, front_end

PROGRAM = """#include <stdio.h>
static int g(int x) { int s = 0; for (int i = 0; i < x; i++) s += i * x; return s; }
static int h(int x) { return g(x) + g(x + 1); }
int main(int c, char **v) {
  if (c - c) puts(__DATE__ __TIME__);  // the module depends on no clock
  printf("%d\\n", h(c) + g(c) + h(2));
  return h(c) > 3;
}
"""


@pytest.fixture(scope="session")
def searched(cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a program, its object, and the recipe of a search that starts from `never`."""
    folder = tmp_path_factory.mktemp("searched")
    (folder / "calls.c").write_text(PROGRAM)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        _, arguments = front_end(Path("calls.c"), "Oz", folder)
        (result,) = CorpusSearch("mlgo/Inline-v0", arguments, compiles=5, start="never", recipes=Path("recipes")).run()
    assert result.error is None
    words = ["--mlgo-recipes=recipes", "-Oz", "-c", "calls.c"]
    subprocess.run([str(DRIVERS["gcc"]), *words], cwd=folder, check=True)
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


def test_a_search_is_replayed_for_an_unchanged_module(run: Run, project: Path, recipes: Path, searched: Path) -> None:
    compile_by(run, recipes)
    assert (project / "calls.o").read_bytes() == (searched / "calls.o").read_bytes()
    assert counted("compiled by a recipe") == 1
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
        original.replace("mlgo-gym recipe 1", "another"),
        "",
    )
    for number, changed in enumerate(damages, 1):
        path.write_text(changed)
        compile_by(run, recipes)
        assert (project / "calls.o").read_bytes() == plain, changed
        assert counted("recipe failed") == number, changed


OWN = """
template <class T> T own(T x) { T s = 0; for (T i = 0; i < x; ++i) s ^= printf("%d", (int)(x - i)) * 7; return s; }
long user(long x) { return own(x) + own(x + 1); }
"""


def test_a_recipe_of_the_link_view_is_replayed_with_the_facts_of_the_link(
    run: Run,
    clang: dict[str, list[str]],
    project: Path,
    own_cache: Path,
    toolchain: Toolchain,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(project)
    Path("a.cpp").write_text(PROGRAM + OWN)
    command, facts, recipes = ["-Oz", "-c", "a.cpp"], project.parent / "facts", project.parent / "recipes"
    assert run("--mlgo-policy=default", *command, "-o", "plain.o").returncode == 0
    LinkFacts.of_objects([Path("plain.o").read_bytes()]).write(facts)
    module = project.parent / "module.bc"
    module.write_bytes(front_end_bitcode(clang["gcc"], command))
    flags = {"flags": list(cc1_flags([*clang["gcc"], *command]))}
    arguments = {"corpus": str(module), "compile_options": flags, "link_view": True, "link_facts": str(facts)}
    (result,) = CorpusSearch("mlgo/Inline-v0", arguments, compiles=5, start="never", recipes=recipes).run()
    assert result.error is None
    path, recipe = only_recipe(recipes)
    assert verify_recipe(path, recipe, toolchain) == ""
    options = (f"--mlgo-recipes={recipes}", "--mlgo-policy=default", f"--mlgo-link-facts={facts}", *command)
    for expected, words in ((1, ()), (1, ("--mlgo-internal=off",))):
        assert run(*words, *options, "-o", "a.o").returncode == 0
        assert counted("compiled by a recipe") == expected
        assert (text(Path("a.o")) == recipe.text) is (not words)
    assert counted("functions made internal") == 1
    assert recipe.text < recipe.baseline_text
    # A search that finds nothing keeps clang's own choices, whatever the policy of the build.
    path.unlink()
    (result,) = CorpusSearch("mlgo/Inline-v0", arguments, compiles=1, recipes=recipes).run()
    assert (result.verified, result.improved) == (True, False)
    assert run(*options, "--mlgo-policy=never", "-o", "a.o").returncode == 0
    assert text(Path("a.o")) == recipe.baseline_text
    assert (counted("compiled by a recipe"), counted("functions made internal")) == (2, 2)


def test_recipes_are_verified(recipes: Path, toolchain: Toolchain) -> None:
    path, recipe = only_recipe(recipes)
    assert verify_recipe(path, recipe, toolchain) == ""
    others = [
        (replace(recipe, actions=dict(list(recipe.actions.items())[:1])), "requests, got "),
        (replace(recipe, text=1), "expected 1 bytes, got"),
        (replace(recipe, clang="1.2.3"), "expected clang 1.2.3 for this recipe, got"),
        (replace(recipe, flags=(*recipe.flags, "-load", "evil.so")), "expected arguments that only shape code"),
    ]
    for other, message in others:
        assert message in verify_recipe(path, other, toolchain)
    path.with_suffix(".bc").write_bytes(b"BC")
    assert verify_recipe(path, recipe, toolchain).startswith(f"expected bitcode with SHA-256 {recipe.digest}")
    path.with_suffix(".bc").unlink()
    assert verify_recipe(path, recipe, toolchain) == "its module is missing"
    with pytest.raises(CorpusError, match="expected a folder of recipes"):
        list(stored_recipes(recipes / "nowhere"))
