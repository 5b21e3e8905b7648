"""Searches find verified actions that cost no more than clang's own choices; they resume, and their recipes replay."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mlgo_gym import CompilerEnv, CompilerError, CorpusError, MlgoError, load_policy
from mlgo_gym.compiler.decision import Decision, DecisionSite
from mlgo_gym.envs import InlineEnv, RegAllocEvictEnv, RegAllocPriorityEnv
from mlgo_gym.episode.attribution.inline_compile import InlineCompile, InlineDecision
from mlgo_gym.episode.attribution.recipe import read_recipe
from mlgo_gym.make_env import make_environment
from mlgo_gym.search import Budget, CorpusSearch, SearchResult, search_module
from mlgo_gym.search.moves import ExpectedCompile, MoveRanking, Trial, code_copies, make_move
from mlgo_gym.search.search_space import PORTFOLIO, SearchSpace, portfolio_names, search_environment
from tests.conftest import MakeBitcode, clang_program, failing_clang
from tests.episode.test_credit import decision, sizes
from tests.policies.episodes import play

INLINE = "mlgo/Inline-v0"

WHOLE = [
    131, 136, 242, 224, 191, 176, 159, 161, 217, 197, 181, 163, 201, 147, 131, 177, 192, 172, 131, 210, 184, 172, 136,
    181, 147,
]  # fmt: skip
"""Costs that a search of `calls.c` without a limit tries."""


def search(env: CompilerEnv, module: str | None = None, **settings: Any) -> SearchResult:
    return search_module(env, env.corpus[0] if module is None else env.corpus.module(module), **settings)


@pytest.mark.parametrize(
    ("environment", "program", "seed", "compiles", "expected"),
    [
        # A change of the search changes its results: the changelog says so.
        (INLINE, "families.c", 3, 40, [744, 776, 1319, 1268, 964, 932, 855, 894, 769, 903, 853, 852, 869, 811, 733, 847,
            855, 879, 837, 757, 733, 756, 852, 695, 744, 712, 730, 704, 1118, 750, 704, 706, 802, 778, 709, 809, 716,
            799, 702, 698]),
        (INLINE, "families.c", 4, 10, [744, 776, 1155, 973, 1180, 1137, 1115, 843, 929, 734]),
        (f"{INLINE} max_frame", "families.c", 3, 24, [40, 40, 56, 56, 56, 40, 40, 40, 56, 56, 40, 56, 40, 56, 56, 56,
            56, 56, 40, 40, 56, 40, 56, 40]),
        (INLINE, "parts.c -Os", 3, 12, [493, 231, 225, 499, 493, 499, 493, 404, 409, 409, 398, 398]),
        (INLINE, "calls.c", 3, None, WHOLE),
        (INLINE, "calls.c", 3, 34, [*WHOLE, 131, 131, 131, 131, 144, 163, 131, 184, 145]),  # pairs follow
    ],
)  # fmt: skip
def test_a_seed_decides_what_a_search_tries(
    environment: str, program: str, seed: int, compiles: int | None, expected: list[float], make_bitcode: MakeBitcode,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    tried: list[float | None] = []
    record = SearchSpace.record

    def note(space: SearchSpace, cost: float | None) -> None:
        tried.append(cost)
        record(space, cost)

    monkeypatch.setattr(SearchSpace, "record", note)
    name, *metric = environment.split()
    file, optimize = f"{program} -Oz".split()[:2]
    corpus = str(make_bitcode(file, optimize=optimize))
    env = make_environment(name, {"corpus": corpus, **({"metric": metric[0]} if metric else {})})
    result = search(env, compiles=compiles, seed=seed)
    assert tried == expected
    assert (result.verified, result.compiles, result.failed) == (True, len(expected), 0)
    assert (result.cost, result.cost_after(9)) == (min(expected), min(expected[:9]))
    own, _ = play(env, load_policy("default", env), env.corpus[0].name)
    assert (list(result.actions) == own) == (min(expected) == expected[0]), "of equal costs the first is kept"


def test_the_copies_of_functions_that_call_each_other_are_finite() -> None:
    inlined = [decision("f", "g", 1), decision("g", "f", 1), decision("main", "f", 1), decision("main", "g", 0)]
    assert code_copies(inlined, {"f": 10, "main": 5}) == {"f": 2, "g": 0, "main": 1}


def test_a_larger_caller_and_a_larger_callee_make_a_flip_more_promising_where_costs_are_no_bytes() -> None:
    move = make_move("inline", [(DecisionSite("f", 0, 0), decision("f", "g", 0))])
    scores = [
        MoveRanking(by_cost=True).scores([move], {}, {"f": f, "g": g}, np.random.default_rng(0))[0]
        for f, g in ((0, 0), (500, 0), (0, 500), (500, 500))
    ]
    assert scores == sorted(scores)
    assert len(set(scores)) == len(scores)


def test_a_plan_finds_each_call_by_its_features_and_a_changed_one_by_its_place() -> None:
    dtype = np.dtype([("cost_estimate", "<i8", (1,)), ("nr_ctant_params", "<i8", (1,))])

    def call(context: str, index: int, *features: int) -> Decision:
        return Decision(0, DecisionSite(context, 0, index), np.array([features], "<i8").tobytes())

    features = [(10, 1), (20, 1), (20, 2), *((number, 3) for number in range(40))]
    calls = [call("f", index, *both) for index, both in enumerate(features)]
    recorded = [InlineDecision(each.site, "g", each.site.index % 2, 0, each.payload) for each in calls]
    trial = Trial(InlineCompile(tuple(recorded), sizes({})), frozenset({calls[2].site}), sizes({}), 0.0)
    cases = [  # each call, its answer if all are pinned, and otherwise
        (call("f", 0, 20, 1), 1, None),  # one was skipped
        (call("f", 1, 9, 9), None, None),
        (call("f", 2, 20, 2), 0, 0),
        (call("f", 3, 8, 8), 1, None),  # its callee changed
        (call("f", 4, 1, 3), 7, 7),
        (call("f", 6, 39, 3), None, None),  # too far ahead
        (call("g", 0, 10, 1), None, None),
    ]
    for pinned in (True, False):
        plan = ExpectedCompile(trial).plan(dtype, [(calls[4].site, 7)], pinned=pinned)
        assert [plan(case[0]) for case in cases] == [case[1 if pinned else 2] for case in cases]


def test_other_environments_are_refused(leaf: Path, calls: Path, varied: str) -> None:
    cases: list[tuple[CompilerEnv, str]] = [
        (RegAllocPriorityEnv(corpus=str(calls)), "use mlgo/Inline-v0"),
        (InlineEnv(corpus=str(leaf)), "expected a decision on inlining"),
        (RegAllocEvictEnv(corpus=varied), "expected an environment of inlining to search, got eviction"),
    ]
    for env, message in cases:
        with pytest.raises((MlgoError, CorpusError), match=message):
            search(env, compiles=2)
    with pytest.raises(CorpusError, match="has no module 'no_such'"):
        CorpusSearch(INLINE, {"corpus": str(calls)}, names=("no_such",)).modules()
    for compiles, seconds in ((0, None), (None, 0.0), (None, -1.0)):
        with pytest.raises(MlgoError, match="use None for no limit"):
            Budget(compiles, seconds)
    assert not Budget(seconds=0.5).is_unlimited


def test_bundles_are_no_worse_than_their_start_and_portfolio(make_bitcode: MakeBitcode, callee_network: str) -> None:
    bitcode = str(make_bitcode("families.c"))
    env = InlineEnv(corpus=bitcode, callee_features=True)
    actions, _ = play(env, load_policy(callee_network, env), env.corpus[0].name)
    first = search(env, compiles=1, start=callee_network)
    assert (first.actions, first.verified) == (tuple(actions), True)
    more = search(env, compiles=4, start=callee_network)
    assert more.verified
    assert more.cost <= first.cost
    alone = [search(env, compiles=1, start=name).cost for name in PORTFOLIO]
    result = search(env, compiles=len(PORTFOLIO) + 6)
    assert result.verified
    assert result.cost <= min(alone)
    assert result.cost < result.baseline
    assert result.compiles <= len(PORTFOLIO) + 6
    frames = search(InlineEnv(corpus=bitcode, metric="max_frame"), compiles=len(PORTFOLIO) + 2)
    assert frames.verified
    assert frames.cost <= frames.baseline


def test_every_policy_of_a_portfolio_fits_the_environment_of_the_search(varied: str) -> None:
    env, _ = search_environment(INLINE, {"corpus": varied}, "default")
    names = portfolio_names(env)
    assert len(names) > 3
    assert all(load_policy(name, env) for name in names)
    env.close()


def test_failures_count_and_a_failed_first_one_ends(make_bitcode: MakeBitcode, tmp_path: Path, own_cache: Path) -> None:
    def found(failing: str, compiles: int) -> SearchResult:
        """The first start reads features."""
        env = InlineEnv(corpus=str(make_bitcode("families.c")), clang=failing_clang(tmp_path, failing))
        return search(env, compiles=compiles)

    result = found("3|6", 10)
    assert (result.failed, result.compiles, result.verified) == (2, 10, True)
    assert result.improvements == ((1, 744), (10, 714))
    with pytest.raises(CompilerError, match="exit status 9"):
        found("2", 3)
    arguments = {"corpus": str(make_bitcode("families.c")), "clang": failing_clang(tmp_path, "3|4|5|6")}
    (failed,) = CorpusSearch(INLINE, arguments, compiles=3).run()
    assert (failed.cost, failed.baseline, failed.verified, "status 9" in str(failed.error)) == (0, 0, False, True)


def test_recipes_are_verified_first(make_bitcode: MakeBitcode, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    starts, corpus = tmp_path / "starts", str(make_bitcode("families.c"))

    def found(name: str, changed: int) -> tuple[SearchResult, int, int]:
        """Search with a clang whose start with a number aligns functions; return result, recipes and starts."""
        monkeypatch.setenv("MLGO_CACHE", str(tmp_path / name / "cache"))
        starts.write_text("")
        align = f'[ $(grep -c . "{starts}") = {changed} ] && set -- "$@" -mllvm -align-all-functions=8'
        align = f'echo started >> "{starts}"; {align}'
        program = clang_program(tmp_path / "clang", f'case "$*" in *interactive-channel*) {align};; esac')
        recipes = tmp_path / name / "recipes"
        search = CorpusSearch(INLINE, {"corpus": corpus, "clang": str(program)}, compiles=8, recipes=recipes)
        (result,) = search.run()
        return result, len(list(recipes.glob("*.recipe"))), len(starts.read_bytes().splitlines())

    result, written, count = found("same", 0)
    assert (result.verified, result.improved, written) == (True, True, 1)
    # The last start is that of the recipe, and the one before is the replay.
    result, written, again = found("other", count - 1)
    assert (result.verified, result.cost < result.baseline, written, again) == (False, True, 0, count - 1)


@pytest.mark.parametrize("program", ["error_attribute.c", "assembly_label.c"])
def test_decisions_that_break_it_are_infeasible(program: str, make_bitcode: MakeBitcode, nothing_is_left: None) -> None:
    env = InlineEnv(corpus=str(make_bitcode(program, optimize="-Os")), compile_options={"flags": ["-Os"]})
    result = search(env, compiles=8)
    assert (result.verified, result.error, result.cost) == (True, None, result.baseline)


def test_a_recipe_has_the_metric_and_the_costs_of_its_search(make_bitcode: MakeBitcode, tmp_path: Path) -> None:
    corpus = str(make_bitcode("families.c"))
    weights, flags = {"text": 1.0, "max_frame": 0.01}, set()
    for metric in ("text", "loaded", "object", weights):
        arguments: dict[str, Any] = {"corpus": corpus, "metric": metric}
        recipes = tmp_path / "new" / str(metric)
        (result,) = CorpusSearch(INLINE, arguments, compiles=10, recipes=recipes).run()
        (path,) = recipes.glob("*.recipe")
        recipe = read_recipe(path)
        assert (path.stem, recipe.module, recipe.compiles) == (recipe.digest, result.module, result.compiles)
        assert recipe.answers == result.actions
        assert (recipe.metric if isinstance(metric, str) else json.loads(recipe.metric)) == metric
        assert recipe.costs == (result.cost, result.baseline)
        assert recipe.change == pytest.approx(-result.reduction)
        flags.add(recipe.flags)
    assert len(flags) == 1, "those of a compile without measurements"
    assert not any("stack-usage" in flag for flag in recipe.flags)
    with pytest.raises(MlgoError, match=r"expected a recipe by text for .*, got one by object"):
        next(CorpusSearch(INLINE, {"corpus": corpus}, compiles=2, recipes=recipes.parent / "object").run())
    arguments["metric"] = dict(reversed(weights.items()))
    assert next(CorpusSearch(INLINE, arguments, compiles=1, recipes=recipes).run()).verified
    (result,) = CorpusSearch(INLINE, arguments, compiles=1, start="always", recipes=tmp_path / "worse").run()
    (path,) = (tmp_path / "worse").glob("*.recipe")
    assert (read_recipe(path).answers, read_recipe(path).costs) == ((), (result.baseline, result.baseline))
    assert result.cost > result.baseline
