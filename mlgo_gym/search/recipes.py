"""Makes recipes from the actions of a search."""

from __future__ import annotations

from typing import Any

from mlgo_gym.compiler.decision import DecisionSite
from mlgo_gym.compiler.process import STACK_USAGE_FLAGS
from mlgo_gym.corpus.corpus import Module
from mlgo_gym.corpus.flags import edit_flags
from mlgo_gym.env import CompilerEnv
from mlgo_gym.episode.allocation_compile import run_allocation_compile
from mlgo_gym.episode.attribution.inline_compile import run_inline_compile
from mlgo_gym.episode.attribution.recipe import Recipe
from mlgo_gym.episode.baseline import measure_baseline
from mlgo_gym.errors import MlgoError
from mlgo_gym.llvm.advisors import EVICTION, INLINING
from mlgo_gym.llvm.estimated_instructions import FREQUENCY_FLAGS
from mlgo_gym.llvm.sizes import object_sizes
from mlgo_gym.tasks.measurement import SIZE_METRICS, STACK, Measurement

_MEASURING = [flag.partition("=")[0] for flag in FREQUENCY_FLAGS if flag != "-mllvm"]


def make_recipe(env: CompilerEnv, module: Module, actions: tuple[int, ...] | None, compiles: int = 0) -> Recipe:
    """Return the recipe of some actions, from a new compile that takes them.

    Args:
        env: The environment; it gives compiler and flags.
        module: The module.
        actions: Action of each decision; None if no search result is smaller than a plain compile.
        compiles: Number of compiles of the search.

    Raises:
        MlgoError: The number of decisions differs, or the task is neither inlining nor eviction.
        CompilerError: The compile failed.
    """
    compilation, task = env.compilation(module), env.task
    evicts = task.advisors == (EVICTION,)
    baseline = measure_baseline(compilation, env.setup.timeout, optimization_record=task.optimization_record)
    assert baseline.sizes is not None, "a plain compile makes an object"
    text, by_site, others = baseline.sizes.text, dict[DecisionSite, int](), dict[str, Any]()
    if actions is not None:
        remaining = iter(actions)
        if evicts:
            allocated = run_allocation_compile(
                env.setup, compilation, lambda decision, _: next(remaining, task.default_action(decision))
            )
            evictions = [eviction for decisions in allocated.functions.values() for eviction in decisions]
            by_site = {eviction.decision.site: eviction.answer for eviction in evictions}
            assert allocated.measurement.sizes is not None, "a compile makes an object"
            text = allocated.measurement.sizes.text
            cost = allocated.cost, float(task.outcome(baseline, env.metric))
            others = {"cost": cost}
        else:
            compiled = run_inline_compile(compilation, task, lambda _: next(remaining, 0), env.setup.timeout)
            by_site = {decision.site: decision.answer for decision in compiled.decisions}
            text = compiled.text
            if env.metric in (*SIZE_METRICS, STACK) and env.metric != "text":
                measured = Measurement(object_sizes(compiled.object_bytes), frames=compiled.frames), baseline
                others = {"cost": tuple(task.outcome(measurement, env.metric) for measurement in measured)}
        if len(by_site) != len(actions):
            raise MlgoError(f"expected {len(actions)} decisions, got {len(by_site)}; the module or its flags changed")
    return Recipe(
        module=module.name,
        digest=module.digest(),
        clang=env.toolchain.version_text,
        flags=recipe_flags(env, module),
        text=text,
        baseline_text=baseline.sizes.text,
        actions=by_site,
        compiles=compiles,
        advisor=EVICTION.name if evicts else INLINING.name,
        **others,
    )


def recipe_flags(env: CompilerEnv, module: Module) -> tuple[str, ...]:
    """Return the flags of a compile of the whole module, without those that only measure."""
    # Optimised bitcode gives the same object as the module (`mlgo_gym.episode.setup.preoptimize`).
    flags, measuring = env.compilation(module).flags, (*_MEASURING, STACK_USAGE_FLAGS[0])
    return edit_flags(flags, delete=("-disable-llvm-passes", *measuring) if env.task.after_optimization else measuring)
