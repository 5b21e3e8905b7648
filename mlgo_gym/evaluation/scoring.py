"""The score of a heuristic for inlining that is a text: a rule, or a program in Python.

A search of programs, or a language model, calls `score()` for each candidate. A rule runs in this process. A program
runs in a process of its own, with limits of time and memory; that is no sandbox against hostile code.
"""

from __future__ import annotations

import ast
import math
import resource
import signal
import time
import traceback
from collections import deque
from collections.abc import Callable, Generator, Mapping
from contextlib import closing
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from types import ModuleType
from typing import Any

import mlgo_gym
from mlgo_gym.cache import JsonCache, key_of
from mlgo_gym.compiler.callee_features import uses_callee_features
from mlgo_gym.env import CompilerEnv
from mlgo_gym.errors import CompilerError, MlgoError, NoDecisionError, PolicyError
from mlgo_gym.evaluation.statistics import Change
from mlgo_gym.make_env import make_environment
from mlgo_gym.policies.protocol import flat_part, run_episode
from mlgo_gym.policies.rules import RULE_SUFFIX, RuleText, rule_policy
from mlgo_gym.scheduling import SequentialRunner, WorkerFailure, processes

MEMORY_GIB = 8
"""Address space of a candidate's process and of its compilers, in GiB."""

EARLIEST = 8
"""The first part of the modules after which a candidate may end is one in this number; each further part doubles."""

COSTLY = 10
"""Length of the list of decisions, and of that of modules."""

_NAMED = ("cost_estimate", "callee_users", "callee_basic_block_count", "callee_linkage", "callee_last", "callee_kept")
_CACHE = JsonCache("scores")

Choose = Callable[[Any, Mapping[str, Any]], int]


@dataclass(frozen=True, slots=True)
class Score:
    """The score of a candidate against plain clang; smaller is better.

    Attributes:
        value: Relative change of the geometric mean of `.text`, each project with equal weight; infinite for a failure.
        low, high: Ends of the 95 % interval of `value` over projects; None with fewer than four projects.
        total: Relative change of the sum.
        modules: Number of compiled modules with decisions.
        complete: Whether the candidate ran on all modules of the sample.
        regressions: Modules that became larger, those with the largest growth first: name and growth in bytes.
        decisions: The decisions that cost most bytes by credit, in words; empty with `explain=False`.
        error: Why the candidate failed; empty for one that ran.
    """

    value: float = math.inf
    low: float | None = None
    high: float | None = None
    total: float = math.inf
    modules: int = 0
    complete: bool = False
    regressions: tuple[tuple[str, int], ...] = ()
    decisions: tuple[str, ...] = ()
    error: str = ""

    def __str__(self) -> str:
        """Return the score in words, for a person or a language model."""
        if self.error:
            return f"failed: {self.error}"
        interval = "no interval" if self.low is None else f"95 % interval {self.low:+.3%} to {self.high:+.3%}"
        ended = "" if self.complete else ", ended early"
        lines = [f"{self.value:+.3%} of code ({interval}), total {self.total:+.3%}, {self.modules} modules{ended}"]
        lines += [f"larger: {module}, {growth:+d} bytes" for module, growth in self.regressions]
        return "\n".join([*lines, *(f"costly: {decision}" for decision in self.decisions)])


@dataclass(frozen=True, slots=True)
class _Outcome:
    """One module under a candidate; `costly` has decisions with their bytes."""

    project: str = ""
    value: int = 0
    baseline: int = 0
    costly: tuple[tuple[float, str], ...] = ()
    error: str = ""


@dataclass(frozen=True, slots=True)
class _Candidate:
    text: str
    is_rule: bool
    corpus: str
    explain: bool
    seconds: float

    def environment(self) -> CompilerEnv:
        uses_callees = not self.is_rule or uses_callee_features(RuleText.parse(self.text, "the candidate").features)
        return _environment(self.corpus, self.explain, callee_features=uses_callees or self.explain)

    def start(self, capacity: int) -> SequentialRunner[str, _Outcome]:
        """Return the runner of a worker process, after its limits are set."""
        del capacity
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_GIB << 30, MEMORY_GIB << 30))
        signal.setitimer(signal.ITIMER_REAL, self.seconds)
        return SequentialRunner(self.run)

    def run(self, name: str) -> _Outcome:
        env = self.environment()
        try:
            return _run(env, _choose(self.text, env, is_rule=self.is_rule), name, explain=self.explain)
        except PolicyError as error:
            return _Outcome(error=str(error))

    def outcomes(self, names: list[str]) -> Generator[tuple[str, _Outcome], None, None]:
        if self.is_rule:
            end = time.monotonic() + self.seconds
            for name in names:
                yield name, self.run(name) if time.monotonic() < end else _Outcome(error=self._late())
            return
        with processes(self.start, 1) as workers, closing(workers.run(deque(names))) as results:
            for name, result in results:
                if isinstance(result, WorkerFailure):
                    late = result.status == -signal.SIGALRM
                    yield name, _Outcome(error=self._late() if late else f"its process died: {result.how}")
                else:
                    yield name, result

    def _late(self) -> str:
        return f"expected an end within {self.seconds:g} s, got none; make it faster, or raise seconds"


def score(
    source_or_path: str | Path,
    *,
    corpus: str = "builtin",
    level: str = "Oz",
    compiles: int = 64,
    seconds: float = 600.0,
    end_above: float = 0.02,
    explain: bool = True,
    seed: int = 0,
) -> Score:
    """Compile a sample of training modules under a heuristic, and compare them with plain clang.

    The result is deterministic, and remembered by the digest of its inputs. A candidate that fails has an infinite
    score and an `error`.

    Args:
        source_or_path: A condition (`mlgo_gym.policies.rules`), or Python that defines `inline(features) -> bool`, with
            a dict of numbers by name, or `act(observation, info) -> int`; as text, or the path of a `.rule` or `.py`.
        corpus: Name of a corpus, without level and part.
        level: Optimisation level, `Oz` or `Os`.
        compiles: Number of modules in the sample (≥ 1).
        seconds: Wall time of the candidate with its compiles (> 0).
        end_above: Change of the geometric mean above which a candidate ends after 1/8, 1/4 or 1/2 of the modules.
        explain: Whether to find the costly decisions, in about twice the time.
        seed: Seed of the sample.

    Raises:
        MlgoError: The corpus does not exist, the path cannot be read, or a number is outside its range.
    """
    if compiles < 1 or not seconds > 0:
        raise MlgoError(f"expected compiles ≥ 1 and seconds > 0, got {compiles} and {seconds:g}")
    text, is_rule = _source(source_or_path)
    candidate = _Candidate(text, is_rule, f"{corpus}@{level}:train", explain, float(seconds))
    try:
        env = candidate.environment()
    except PolicyError as error:
        return Score(error=str(error))
    modules = env.corpus.sample(min(compiles, len(env.corpus)), seed=seed)
    facts = [[module.name, module.digest(), list(module.flags or ())] for module in modules]
    key = key_of(mlgo_gym.__version__, text, is_rule, env.toolchain.digest(), facts, end_above, explain)
    if (record := _CACHE.get(key)) is not None:
        record["regressions"] = tuple((name, growth) for name, growth in record["regressions"])
        return Score(**{**record, "decisions": tuple(record["decisions"])})
    result = _scored(candidate, [module.name for module in modules], end_above)
    if math.isfinite(result.value):
        _CACHE.put(key, asdict(result))
    return result


def _scored(candidate: _Candidate, names: list[str], end_above: float) -> Score:
    """Run a candidate until it fails, or is too bad, or the names end."""
    rungs = {len(names) * part // EARLIEST for part in (1, 2, 4)}
    outcomes: dict[str, _Outcome] = {}
    complete = True
    with closing(candidate.outcomes(names)) as results:
        for number, (name, outcome) in enumerate(results, 1):
            if outcome.error:
                return Score(error=f"{name}: {outcome.error}")
            if outcome.baseline:
                outcomes[name] = outcome
            if number in rungs and _change(outcomes).mean > end_above:
                complete = False
                break
    change = _change(outcomes)
    grown = sorted(((out.value - out.baseline, name) for name, out in outcomes.items()), reverse=True)
    costly = sorted((pair for outcome in outcomes.values() for pair in outcome.costly), reverse=True)
    return Score(
        value=change.mean,
        low=change.estimate.low,
        high=change.estimate.high,
        total=change.total,
        modules=len(outcomes),
        complete=complete,
        regressions=tuple((name, growth) for growth, name in grown[:COSTLY] if growth > 0),
        decisions=tuple(words for _, words in costly[:COSTLY]),
    )


def _change(outcomes: Mapping[str, _Outcome]) -> Change:
    pairs = tuple((float(outcome.value), float(outcome.baseline)) for outcome in outcomes.values())
    return Change(pairs, tuple(outcome.project for outcome in outcomes.values()), tuple(outcomes))


@lru_cache(maxsize=4)
def _environment(corpus: str, credit: bool, *, callee_features: bool) -> CompilerEnv:
    arguments = {"corpus": corpus, "callee_features": callee_features, "credit": credit}
    return make_environment("mlgo/Inline-v0", arguments)


def _source(source_or_path: str | Path) -> tuple[str, bool]:
    """Return the text of a candidate, and whether it is a rule."""
    text = str(source_or_path)
    if isinstance(source_or_path, Path) or ("\n" not in text and text.endswith((".py", RULE_SUFFIX))):
        path = Path(source_or_path).expanduser()
        try:
            return path.read_text(encoding="utf-8"), path.suffix == RULE_SUFFIX
        except (OSError, UnicodeDecodeError) as error:
            raise MlgoError(f"the candidate {path} cannot be read: {error}; write Python or a rule to it") from error
    return text, _is_rule(text)


def _is_rule(text: str) -> bool:
    """Return whether a text is a condition, which is one expression, and no program."""
    try:
        return all(isinstance(statement, ast.Expr) for statement in ast.parse(text).body)
    except (SyntaxError, ValueError):
        return "def " not in text


@lru_cache(maxsize=1)
def _choose(text: str, env: CompilerEnv, *, is_rule: bool) -> Choose:
    """Return a candidate as a function from an observation and its info to an action."""
    if is_rule:
        return rule_policy(env, RuleText.parse(text, "the candidate"), "the candidate").act
    module = ModuleType("candidate")
    try:
        exec(compile(text, "candidate.py", "exec"), vars(module))  # noqa: S102 - the candidate, in its own process
    except Exception as error:  # noqa: BLE001 - it may raise anything
        raise PolicyError(_reason(error)) from None
    inline, act = getattr(module, "inline", None), getattr(module, "act", None)
    if callable(inline):
        names = env.feature_names
        return lambda row, _info: int(bool(inline(dict(zip(names, flat_part(row).tolist(), strict=True)))))
    if callable(act):
        return lambda row, info: int(act(row, info))
    raise PolicyError("expected a function inline(features) or act(observation, info) in the candidate, got neither")


def _reason(error: BaseException) -> str:
    """Return an exception in one line, with the candidate's line that raised it."""
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == "candidate.py"]
    return f"{type(error).__name__}: {error}" + (f" in line {lines[-1]}" if lines else "")


def _run(env: CompilerEnv, choose: Choose, name: str, *, explain: bool) -> _Outcome:
    taken: list[tuple[int, Any, Mapping[str, Any]]] = []

    def act(observation: Any, info: Mapping[str, Any]) -> int:
        action = choose(observation, info)
        if explain:
            taken.append((action, flat_part(observation), info))
        return action

    try:
        _, _, info = run_episode(env, act, options={"module": name})
    except NoDecisionError:
        return _Outcome()
    except CompilerError:
        raise
    except Exception as error:  # noqa: BLE001 - a candidate may raise anything
        env.close()
        return _Outcome(error=_reason(error))
    if info["error"]:
        return _Outcome(error=info["error"]["message"])
    costs = sorted(((-saved, index) for index, saved in enumerate(info.get("credit", ()))), reverse=True)[:COSTLY]
    costly = tuple((cost, _words(env, name, cost, *taken[index])) for cost, index in costs if cost > 0)
    return _Outcome(env.corpus.project(name), info["text"], info["baseline_text"], costly)


def _words(env: CompilerEnv, module: str, cost: float, action: int, row: Any, info: Mapping[str, Any]) -> str:
    verb = "inlines" if action else "keeps"
    facts = ", ".join(f"{name}={row[env.feature_names.index(name)]:g}" for name in _NAMED if name in env.feature_names)
    return f"{module}: {info['context']} {verb} {info['callee'] or 'a call'}, {cost:+.0f} bytes ({facts})"
