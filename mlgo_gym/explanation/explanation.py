"""One module, compiled as two policies decide: where they differ, and what came of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from mlgo_gym.env import CompilerEnv
from mlgo_gym.episode.baseline import measure_baseline
from mlgo_gym.episode.credit import with_parts
from mlgo_gym.episode.placed_compile import PlacedCompile, compile_placed
from mlgo_gym.errors import MlgoError
from mlgo_gym.explanation.call_sites import Agreement, Difference, agreement, differences
from mlgo_gym.explanation.leading_features import FeatureReader, LeadingFeature
from mlgo_gym.explanation.names import readable
from mlgo_gym.llvm.advisors import INLINING
from mlgo_gym.policies import Policy, load_policy
from mlgo_gym.policies.answers import Answers

MEASURED = 10
"""How many differences are measured exactly, by default: a compile for each."""

_STEPS = 4
"""Two compiles, measuring, and asking the policies again."""


@dataclass(frozen=True, slots=True)
class FunctionChange:
    """What one function weighs in the two compiles.

    Attributes:
        symbol: its symbol; what the compiler cut off it counts with it.
        first: its bytes as the first policy decides; 0 where it is not there.
        second: its bytes as the second decides.
    """

    symbol: str
    first: int
    second: int

    @property
    def change(self) -> int:
        """By how many bytes it is larger with the second policy."""
        return self.second - self.first


@dataclass(frozen=True, slots=True)
class Shown:
    """A difference that was looked at closely.

    Attributes:
        difference: the difference, with its exact bytes.
        features: what led to it, the features that decide first.
        unsteady: the policies that answer the same question in two ways.
    """

    difference: Difference
    features: Sequence[LeadingFeature]
    unsteady: Sequence[str]


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why two policies make different code of a module.

    Attributes:
        module: the module's name.
        clang: the compiler's version.
        policies: the two, as they were named.
        baseline: the bytes of the executable sections by clang alone.
        first: the compile as the first policy decides.
        second: that of the second.
        differences: all of them, those with most bytes first.
        shown: the first of them, measured and with their features.
        functions: those that changed, by how much they did.
        only_first: how many questions only the first policy was asked, of which its answer is not clang's own.
        agreement: how near credit came to what was measured.
    """

    module: str
    clang: str
    policies: tuple[str, str]
    baseline: int
    first: PlacedCompile
    second: PlacedCompile
    differences: Sequence[Difference]
    shown: Sequence[Shown]
    functions: Sequence[FunctionChange]
    only_first: int
    agreement: Agreement

    @property
    def change(self) -> int:
        """By how many bytes the module is larger with the second policy."""
        return self.second.text - self.first.text

    def to_json(self) -> dict[str, Any]:
        """Return everything as JSON data; functions by symbol and by their readable name."""
        return {
            "module": self.module,
            "clang": self.clang,
            "policies": list(self.policies),
            "text": {"clang": self.baseline, "first": self.first.text, "second": self.second.text},
            "decisions": {"first": len(self.first.decisions), "second": len(self.second.decisions)},
            "only_first": self.only_first,
            "agreement": asdict(self.agreement),
            "differences": [self._difference(each) for each in self.differences],
            "functions": [
                {"symbol": each.symbol, "name": readable(each.symbol), "first": each.first, "second": each.second}
                for each in self.functions
            ],
        }

    def _difference(self, each: Difference) -> dict[str, Any]:
        decision = each.decision
        shown = next((shown for shown in self.shown if shown.difference.number == each.number), None)
        features = [] if shown is None else [asdict(feature) for feature in shown.features]
        return {
            "caller": [readable(name) for name in decision.functions],
            "callee": readable(decision.callee),
            "context": decision.component,
            "visit": decision.visit,
            "position": decision.position,
            "symbol": decision.callee,
            "decision": each.number,
            "first": each.first,
            "second": decision.answer,
            "clang": decision.default,
            "credited_bytes": each.credited,
            "alone": each.alone,
            "measured_bytes": each.measured,
            "features": features,
            "unsteady": [] if shown is None else list(shown.unsteady),
        }


def explain_module(
    env: CompilerEnv,
    module: str,
    policies: tuple[str, str],
    *,
    measured: int = MEASURED,
    seed: int = 0,
    note: Callable[[int, int, str], object] = lambda _done, _steps, _found: None,
) -> Explanation:
    """Compile a module as two policies decide, and find out why what comes out differs.

    It takes a compile for each policy, and where they differ one for each difference that is measured, and two.

    Args:
        env: an environment of inlining, with flat observations, and calls where a policy sees them.
        module: the module's name in its corpus.
        policies: the two, as `load_policy` takes them.
        measured: how many differences are measured exactly, those first to which most is credited.
        seed: what random policies depend on.
        note: called with how many steps are done, of how many, and what was found.

    Raises:
        CorpusError: the corpus has no such module.
        PolicyError: there is no such policy, or it answers other decisions.
        CompilerError: a compile failed.
        MlgoError: others ask than the inliner.
    """
    if env.task.advisors != (INLINING,):
        raise MlgoError(
            f"calls are explained where inlining is decided, and this is {env.task.name}: use mlgo/Inline-v0"
        )
    found = env.corpus.module(module)
    compilation = env.compilation(found)
    timeout = env.setup.settings.timeout
    loaded = {name: load_policy(name, env, seed=seed) for name in policies}
    compiled = []
    for number, name in enumerate(policies):
        note(number, _STEPS, "")
        answers = Answers(env.task, loaded[name], module)
        compiled.append(compile_placed(compilation, env.task, answers, timeout, foretell=env.setup.settings.calls))
    first, second = compiled
    every = differences(first, second)
    note(2, _STEPS, f"{len(every)} calls differ, {min(measured, len(every))} are measured")
    exact = _measure(env, module, second, every[:measured])
    note(3, _STEPS, "the features")
    asked = {(*decision[:3], decision.callee) for decision in second.decisions}
    return Explanation(
        module,
        env.toolchain.version_text,
        policies,
        _baseline(env, module),
        first,
        second,
        [*exact, *every[measured:]],
        _look_closely(env, loaded, module, second, exact),
        _changes(first, second),
        sum(
            decision.answer != decision.default and (*decision[:3], decision.callee) not in asked
            for decision in first.decisions
        ),
        agreement(exact),
    )


def _baseline(env: CompilerEnv, module: str) -> int:
    compilation = env.compilation(env.corpus.module(module))
    sizes = measure_baseline(compilation, env.setup.settings.timeout).sizes
    assert sizes is not None, "a plain compile goes to its end"
    return sizes.text


def _measure(env: CompilerEnv, module: str, second: PlacedCompile, wanted: Sequence[Difference]) -> list[Difference]:
    """Return differences with their exact bytes: the second policy's episode, each of them made otherwise in turn."""
    if not wanted:
        return []
    env.reset(options={"module": module})
    for answer in second.answers:
        env.step(answer)
    found = env.counterfactual(*(each.place for each in wanted))
    return [replace(each, measured=round(-made.saved)) for each, made in zip(wanted, found, strict=True)]


def _look_closely(
    env: CompilerEnv,
    policies: Mapping[str, Policy],
    module: str,
    second: PlacedCompile,
    found: Sequence[Difference],
) -> list[Shown]:
    if not found:
        return []
    reader = FeatureReader(env, policies, second.decisions)
    return [Shown(each, *reader.of(each.decision, module, each.number)) for each in found]


def _changes(first: PlacedCompile, second: PlacedCompile) -> list[FunctionChange]:
    known = {name for made in (first, second) for each in made.decisions for name in (*each.functions, each.callee)}
    before, after = (with_parts(made.functions.functions, known) for made in (first, second))
    changes = [FunctionChange(name, before.get(name, 0), after.get(name, 0)) for name in before.keys() | after.keys()]
    return sorted((each for each in changes if each.change), key=lambda each: (-abs(each.change), each.symbol))
