"""From the decisions that a search found to a recipe, and from a recipe to a compile."""

from __future__ import annotations

from mlgo_gym.corpus.module import Module
from mlgo_gym.env import CompilerEnv
from mlgo_gym.episode.baseline import measure_baseline
from mlgo_gym.episode.placed_compile import PlacedCompile, compile_placed
from mlgo_gym.errors import MlgoError
from mlgo_gym.session.decision import Decision
from mlgo_gym.storage.recipe import Recipe, Visit, gather


def make_recipe(env: CompilerEnv, module: Module, actions: tuple[int, ...] | None, compiles: int = 0) -> Recipe:
    """Return the recipe of some inlining decisions, from a compile in a fresh clang that takes them.

    Args:
        env: the environment, whose compiler and flags are used.
        module: the module.
        actions: all its decisions, in order; None if nothing smaller than a plain compile was found.
        compiles: how many compiles it took to find them.

    Raises:
        MlgoError: clang asks more or fewer questions, or decides about something else than inlining.
        CompilerError: the compile failed.
    """
    compilation, timeout = env.compilation(module), env.setup.settings.timeout
    baseline = measure_baseline(compilation, timeout)
    assert baseline.sizes is not None, "a plain compile goes to its end"
    text, visits = baseline.sizes.text, gather(())
    if actions is not None:
        compiled = _compile(env, module, actions)
        text, visits = compiled.text, _visits(compiled)
    return Recipe(
        module=module.name,
        digest=module.digest(),
        clang=env.toolchain.version_text,
        flags=compilation.flags,
        text=text,
        baseline_text=baseline.sizes.text,
        visits=visits,
        compiles=compiles,
    )


def replay_recipe(env: CompilerEnv, recipe: Recipe) -> PlacedCompile:
    """Compile the module of a recipe in a fresh clang with its decisions, and check that the result is the recipe's.

    Args:
        env: the environment, whose corpus has the module.
        recipe: the recipe.

    Raises:
        MlgoError: the bitcode, the compiler, the questions or the result differ from the recipe's.
        CompilerError: the compile failed.
    """
    module = env.corpus.module(recipe.module)
    recipe.check(module.digest(), env.toolchain.version_text)
    compiled = _compile(env, module, recipe.answers)
    visits = _visits(compiled)
    if visits != recipe.visits or compiled.text != recipe.text:
        raise MlgoError(
            f"the recipe of {recipe.module!r} was to come to {recipe.text} bytes in {len(recipe.visits)} visits, and "
            f"came to {compiled.text} in {len(visits)}: the flags are others than {' '.join(recipe.flags)}"
        )
    return compiled


def _visits(compiled: PlacedCompile) -> tuple[Visit, ...]:
    return gather((decision.component, decision.visit, decision.answer) for decision in compiled.decisions)


def _compile(env: CompilerEnv, module: Module, actions: tuple[int, ...]) -> PlacedCompile:
    answers = iter(actions)

    def choose(_: Decision) -> int:
        answer = next(answers, None)
        if answer is None:
            raise MlgoError(f"clang asked more than the {len(actions)} questions that were answered")
        return answer

    compiled = compile_placed(env.compilation(module), env.task, choose, env.setup.settings.timeout)
    left = len(list(answers))
    if left:
        raise MlgoError(f"clang did not ask the last {left} of {len(actions)} questions")
    return compiled
