"""Makes recipes from the actions of a search, and replays recipes."""

from __future__ import annotations

from mlgo_gym.attribution.inline_compile import InlineCompile, run_inline_compile
from mlgo_gym.attribution.recipe import Recipe
from mlgo_gym.corpus.module import Module
from mlgo_gym.env import CompilerEnv
from mlgo_gym.episode.baseline import measure_baseline
from mlgo_gym.errors import MlgoError
from mlgo_gym.session.protocol.decision import DecisionSite


def make_recipe(env: CompilerEnv, module: Module, actions: tuple[int, ...] | None, compiles: int = 0) -> Recipe:
    """Return the recipe of some actions, from a new compile that takes them.

    Args:
        env: The environment; it gives compiler and flags.
        module: The module.
        actions: Action of each decision; None if no search result is smaller than a plain compile.
        compiles: Number of compiles of the search.

    Raises:
        MlgoError: The number of decisions differs, or the task is not inlining.
        CompilerError: The compile failed.
    """
    compilation = env.compilation(module)
    baseline = measure_baseline(compilation, env.setup.timeout)
    assert baseline.sizes is not None, "a plain compile makes an object"
    compiled = None if actions is None else _compile(env, module, actions)
    return Recipe(
        module=module.name,
        digest=module.digest(),
        clang=env.toolchain.version_text,
        flags=compilation.flags,
        text=baseline.sizes.text if compiled is None else compiled.text,
        baseline_text=baseline.sizes.text,
        actions={} if compiled is None else _actions_by_site(compiled),
        compiles=compiles,
    )


def replay_recipe(env: CompilerEnv, recipe: Recipe) -> InlineCompile:
    """Compile the module of a recipe, from the environment's corpus, with its actions, and check the result.

    Raises:
        MlgoError: The bitcode, the compiler, the decisions or the size differ from the recipe's.
        CompilerError: The compile failed.
    """
    module = env.corpus.module(recipe.module)
    recipe.check(module.digest(), env.toolchain.version_text)
    compiled = _compile(env, module, recipe.answers)
    found = _actions_by_site(compiled)
    if tuple(found.items()) != tuple(recipe.actions.items()) or compiled.text != recipe.text:
        raise MlgoError(
            f"expected {recipe.text} bytes and {len(recipe.actions)} decisions from the recipe of {recipe.module!r}, "
            f"got {compiled.text} and {len(found)}; compile with its flags: {' '.join(recipe.flags)}"
        )
    return compiled


def _actions_by_site(compiled: InlineCompile) -> dict[DecisionSite, int]:
    return {decision.site: decision.answer for decision in compiled.decisions}


def _compile(env: CompilerEnv, module: Module, actions: tuple[int, ...]) -> InlineCompile:
    remaining = iter(actions)
    compiled = run_inline_compile(env.compilation(module), env.task, lambda _: next(remaining, 0), env.setup.timeout)
    if len(compiled.decisions) != len(actions):
        found = len(compiled.decisions)
        raise MlgoError(f"expected {len(actions)} decisions, got {found}; the module or its flags changed")
    return compiled
