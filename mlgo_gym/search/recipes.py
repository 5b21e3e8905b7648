"""Makes recipes from the actions of a search."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

from mlgo_gym.compiler.protocol.decision import Decision, DecisionSite
from mlgo_gym.corpus.flags import edit_flags
from mlgo_gym.corpus.module import Module
from mlgo_gym.env import CompilerEnv
from mlgo_gym.episode.allocation_compile import AllocationCompile, run_allocation_compile
from mlgo_gym.episode.attribution.inline_compile import InlineCompile, run_inline_compile
from mlgo_gym.episode.attribution.recipe import SUFFIX, Recipe, read_recipe
from mlgo_gym.episode.baseline import measure_baseline
from mlgo_gym.errors import MlgoError
from mlgo_gym.llvm.advisors import EVICTION, INLINING
from mlgo_gym.llvm.block_frequencies import FREQUENCY_FLAGS


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
    compilation = env.compilation(module)
    evicts = env.task.advisors == (EVICTION,)
    baseline = measure_baseline(compilation, env.setup.timeout, optimization_record=env.task.optimization_record)
    assert baseline.sizes is not None, "a plain compile makes an object"
    compiled = None if actions is None else (_allocate if evicts else _compile)(env, module, actions)
    text, cost = baseline.sizes.text, None
    if isinstance(compiled, AllocationCompile):
        assert compiled.measurement.sizes is not None, "a compile makes an object"
        text = compiled.measurement.sizes.text
        cost = compiled.cost, float(env.task.outcome(baseline, env.metric))
    elif compiled is not None:
        text = compiled.text
    return Recipe(
        module=module.name,
        digest=module.digest(),
        clang=env.toolchain.version_text,
        flags=recipe_flags(env, module),
        text=text,
        baseline_text=baseline.sizes.text,
        actions={} if compiled is None else _actions_by_site(compiled),
        compiles=compiles,
        advisor=EVICTION.name if evicts else INLINING.name,
        cost=cost,
        functions=compiled.digests if isinstance(compiled, AllocationCompile) else {},
    )


def known_evictions(folder: Path) -> dict[str, tuple[int, ...]]:
    """Return the columns of each function in the recipes of a folder, by the digest of its first request.

    Of equal functions the newest recipe counts. Damaged recipes and a missing folder are skipped.
    """
    found: dict[str, tuple[int, ...]] = {}
    for path in sorted(folder.glob(f"*{SUFFIX}"), key=lambda each: each.stat().st_mtime):
        try:
            recipe = read_recipe(path)
        except MlgoError:
            continue
        columns: dict[str, list[int]] = defaultdict(list)
        for site, column in recipe.actions.items():
            columns[site.context].append(column)
        found |= {digest: tuple(columns[name]) for name, digest in recipe.functions.items()}
    return found


def recipe_flags(env: CompilerEnv, module: Module) -> tuple[str, ...]:
    """Return the flags of a compile of the whole module, without those that only measure."""
    # Optimised bitcode gives the same object as the module (`mlgo_gym.episode.preoptimization`).
    flags = env.compilation(module).flags
    return edit_flags(flags, delete=("-disable-llvm-passes", *_MEASURING)) if env.task.after_optimization else flags


_MEASURING = [flag.partition("=")[0] for flag in FREQUENCY_FLAGS if flag != "-mllvm"]


def _actions_by_site(compiled: InlineCompile | AllocationCompile) -> dict[DecisionSite, int]:
    if isinstance(compiled, InlineCompile):
        return {decision.site: decision.answer for decision in compiled.decisions}
    return {each.decision.site: each.answer for decisions in compiled.functions.values() for each in decisions}


def _compile(env: CompilerEnv, module: Module, actions: tuple[int, ...]) -> InlineCompile:
    remaining = iter(actions)
    compiled = run_inline_compile(env.compilation(module), env.task, lambda _: next(remaining, 0), env.setup.timeout)
    _check_decisions(len(compiled.decisions), actions)
    return compiled


def _allocate(env: CompilerEnv, module: Module, actions: tuple[int, ...]) -> AllocationCompile:
    remaining = iter(actions)

    def choose(decision: Decision, _: int) -> int:
        return next(remaining, env.task.default_action(decision))

    compiled = run_allocation_compile(env.setup, env.compilation(module), choose)
    _check_decisions(len(compiled.actions), actions)
    return compiled


def _check_decisions(found: int, actions: tuple[int, ...]) -> None:
    if found != len(actions):
        raise MlgoError(f"expected {len(actions)} decisions, got {found}; the module or its flags changed")
