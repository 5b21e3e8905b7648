"""The score of a heuristic for inlining that is a text: a rule, or a program in Python.

A search of programs, or a language model, calls `score()` for each candidate. A rule runs in this process, and its
score is stored. A program may read a file or a random number, so each call runs it, in a process of its own with limits
of time and memory. That is no sandbox against hostile code.
"""

import ast
import math
import re
import resource
import time
import traceback
from collections import Counter, deque
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache
from operator import itemgetter
from pathlib import Path
from types import ModuleType
from typing import Any

import mlgo_gym
from mlgo_gym.cache import JsonCache, key_of
from mlgo_gym.compiler.callee_features import uses_callee_features
from mlgo_gym.corpus.opening import parse_corpora
from mlgo_gym.env import CompilerEnv
from mlgo_gym.errors import MlgoError, NoDecisionError, PolicyError
from mlgo_gym.evaluation.statistics import Change
from mlgo_gym.make_env import make_environment
from mlgo_gym.policies.protocol import flat_part, run_episode
from mlgo_gym.policies.rules import RULE_SUFFIX, RuleText, rule_policy
from mlgo_gym.scheduling import WorkerFailure, processes

MEMORY_GIB = 8
"""Address space of a candidate's process and of its compilers, in GiB."""

FEWEST_MODULES = 8
"""Number of modules with decisions before which no candidate ends early."""

COSTLY = 10
"""Length of the list of decisions, and of that of modules."""

VISIBLE = ("context", "site", "callee", "code", "decision_index", "default_action")
"""The keys of `info` that `act()` gets: nothing that names the module."""

_NAMED = ("cost_estimate", "callee_users", "callee_basic_block_count", "callee_linkage", "callee_last", "callee_kept")
_CODE = re.compile(r"""["']code["']""")
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
        costly: The decisions that cost most bytes by credit, in words; empty with `explain=False`.
        error: Why the candidate failed; empty for one that ran.
        compiles: Number of compiles under the candidate; baselines are stored and do not count.
        decisions: Number of decisions of the candidate.
        cpu_seconds: CPU time of the candidate with its compiles; of a stored score, of its first run.
    """

    value: float = math.inf
    low: float | None = None
    high: float | None = None
    total: float = math.inf
    modules: int = 0
    complete: bool = False
    regressions: tuple[tuple[str, int], ...] = ()
    costly: tuple[str, ...] = ()
    error: str = ""
    compiles: int = 0
    decisions: int = 0
    cpu_seconds: float = field(default=0.0, compare=False)

    def __str__(self) -> str:
        """Return the score in words, for a person or a language model."""
        if self.error:
            return f"failed: {self.error}"
        interval = "no interval" if self.low is None else f"95 % interval {self.low:+.3%} to {self.high:+.3%}"
        ended = "" if self.complete else ", ended early"
        lines = [f"{self.value:+.3%} of code ({interval}), total {self.total:+.3%}, {self.modules} modules{ended}"]
        lines += [f"larger: {module}, {growth:+d} bytes" for module, growth in self.regressions]
        lines += [f"costly: {decision}" for decision in self.costly]
        spent = f"{self.compiles} compiles, {self.decisions:,} decisions, {self.cpu_seconds:.0f} s of CPU time"
        return "\n".join([*lines, spent])


@dataclass(frozen=True, slots=True)
class _Outcome:
    """One module under a candidate: `baseline` is 0 without decisions; `costly` has decisions with their bytes."""

    project: str = ""
    value: int = 0
    baseline: int = 0
    decisions: int = 0
    costly: tuple[tuple[float, str], ...] = ()
    cpu_seconds: float = 0.0
    error: str = ""


@dataclass(frozen=True, slots=True)
class _Candidate:
    text: str
    is_rule: bool
    corpus: str
    explain: bool
    seconds: float
    link_view: bool

    def environment(self) -> CompilerEnv:
        uses_callees = not self.is_rule or uses_callee_features(RuleText.parse(self.text, "the candidate").features)
        reads_code = not self.is_rule and _CODE.search(self.text) is not None
        callee_features = uses_callees or self.explain
        return _environment(
            self.corpus, self.explain, callee_features=callee_features, ir=reads_code, link_view=self.link_view
        )

    def start(self) -> Callable[[str], _Outcome]:
        """Return the work of a worker process, after its limits are set."""
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_GIB << 30, MEMORY_GIB << 30))
        return self.run

    def run(self, name: str) -> _Outcome:
        env, before = self.environment(), _cpu_seconds()
        try:
            outcome = _run(env, _choose(self.text, env, is_rule=self.is_rule), name, explain=self.explain)
        except (PolicyError, _CandidateError) as error:
            env.close()
            return _Outcome(error=str(error))
        return replace(outcome, cpu_seconds=_cpu_seconds() - before)

    def outcomes(self, names: list[str]) -> Generator[tuple[str, _Outcome], None, None]:
        end = time.monotonic() + self.seconds
        if self.is_rule:
            for name in names:
                yield name, self.run(name) if time.monotonic() < end else _Outcome(error=self._late())
            return
        # The deadline is this process's: a candidate can change any timer of its own.
        with processes(self.start, 1, seconds=self.seconds) as workers, closing(workers.run(deque(names))) as results:
            try:
                for name, result in results:
                    if isinstance(result, WorkerFailure):
                        result = _Outcome(
                            error=self._late() if time.monotonic() >= end else f"its process died: {result.how}"
                        )
                    yield name, result
            except MlgoError:  # a process that had not started in time
                if time.monotonic() < end:
                    raise
                yield names[0], _Outcome(error=self._late())

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
    link_view: bool = False,
) -> Score:
    """Compile a sample of training modules under a heuristic, and compare them with plain clang.

    A rule has the same score each time, and is compiled once. A candidate that fails has an infinite score and an
    `error`.

    Args:
        source_or_path: A condition (`mlgo_gym.policies.rules`), or Python that defines `inline(features) -> bool`, with
            a dict of numbers by name, or `act(observation, info) -> int`; as text, or the path of a `.rule` or `.py`.
            A program whose text has the string `"code"` gets `info["code"]`; the compiles take longer.
        corpus: Name of a corpus, without level and part, of which training modules count; or the path of one.
        level: Optimisation level, `Oz` or `Os`.
        compiles: Number of modules in the sample (≥ 1).
        seconds: Wall time of the candidate with its compiles (> 0).
        end_above: Change of the geometric mean above which a candidate ends after 1/8, 1/4 or 1/2 of the modules, of
            which at least 8 have decisions. Each of these parts has modules of as many projects as possible.
        explain: Whether to find the costly decisions, in about twice the time.
        seed: Seed of the sample.
        link_view: Whether functions have the linkages that they have after the recorded link.

    Raises:
        MlgoError: The corpus does not exist, the path cannot be read, or a number is outside its range.
    """
    if compiles < 1 or not seconds > 0:
        raise MlgoError(f"expected compiles ≥ 1 and seconds > 0, got {compiles} and {seconds:g}")
    text, is_rule = _source(source_or_path)
    is_path = parse_corpora(corpus)[0].is_path
    specification = corpus if is_path else f"{corpus}@{level}:train"
    candidate = _Candidate(text, is_rule, specification, explain, float(seconds), link_view)
    try:
        env = candidate.environment()
    except PolicyError as error:
        return Score(error=str(error))
    modules = env.corpus.sample(min(compiles, len(env.corpus)), seed=seed)
    names = _by_turns([module.name for module in modules], env.corpus.project)
    facts = [[module.name, module.contents(), list(module.flags or ())] for module in modules]
    key = key_of(mlgo_gym.__version__, text, env.toolchain.digest(), facts, end_above, explain)
    if is_rule and (record := _CACHE.get(key)) is not None:
        record["regressions"] = tuple((name, growth) for name, growth in record["regressions"])
        return Score(**{**record, "costly": tuple(record["costly"])})
    result = _scored(candidate, names, end_above)
    if is_rule and math.isfinite(result.value):
        _CACHE.put(key, asdict(result))
    return result


def _by_turns(names: Sequence[str], project: Callable[[str], str]) -> list[str]:
    """Return names so that the projects take turns."""
    seen: Counter[str] = Counter()
    turns = []
    for name in names:
        turns.append(seen[project(name)])
        seen[project(name)] += 1
    return [name for _, name in sorted(zip(turns, names, strict=True), key=itemgetter(0))]


def _scored(candidate: _Candidate, names: list[str], end_above: float) -> Score:
    """Run a candidate until it fails, or is too bad, or the names end."""
    rungs = {len(names) * part // 8 for part in (1, 2, 4)}
    outcomes: dict[str, _Outcome] = {}
    complete, compiles, cpu_seconds = True, 0, 0.0
    with closing(candidate.outcomes(names)) as results:
        for done, (name, outcome) in enumerate(results, 1):
            if outcome.error:
                return Score(error=f"{name}: {outcome.error}")
            compiles, cpu_seconds = compiles + 1, cpu_seconds + outcome.cpu_seconds
            if outcome.baseline:
                outcomes[name] = outcome
            if done in rungs and len(outcomes) >= FEWEST_MODULES and _change(outcomes).mean > end_above:
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
        costly=tuple(words for _, words in costly[:COSTLY]),
        compiles=compiles,
        decisions=sum(outcome.decisions for outcome in outcomes.values()),
        cpu_seconds=cpu_seconds,
    )


def _cpu_seconds() -> float:
    """Return the CPU time of this process and of its finished compilers, in seconds."""
    usages = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


class _CandidateError(Exception):
    """What a candidate raised, or why it cannot run."""


def _change(outcomes: Mapping[str, _Outcome]) -> Change:
    pairs = tuple((float(outcome.value), float(outcome.baseline)) for outcome in outcomes.values())
    return Change(pairs, tuple(outcome.project for outcome in outcomes.values()), tuple(outcomes))


@lru_cache(maxsize=4)
def _environment(corpus: str, credit: bool, **arguments: bool) -> CompilerEnv:
    return make_environment("mlgo/Inline-v0", {"corpus": corpus, "credit": credit, **arguments})


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
    with _candidate_errors():
        exec(compile(text, "candidate.py", "exec"), vars(module))  # noqa: S102 - the candidate, in its own process
    inline, act = getattr(module, "inline", None), getattr(module, "act", None)
    if callable(inline):
        names = env.feature_names
        return lambda row, _info: int(bool(inline(dict(zip(names, flat_part(row).tolist(), strict=True)))))
    if callable(act):
        return lambda row, info: int(act(row, {key: info[key] for key in VISIBLE if key in info}))
    raise _CandidateError("expected inline(features) or act(observation, info) in the candidate, got neither")


@contextmanager
def _candidate_errors() -> Iterator[None]:
    """Turn all that a candidate raises into `_CandidateError`, so that no error of its own is one of the compile."""
    try:
        yield
    except (Exception, SystemExit) as error:  # noqa: BLE001 - it may raise anything
        frames = traceback.extract_tb(error.__traceback__)
        lines = [f" in line {frame.lineno}" for frame in frames if frame.filename == "candidate.py"]
        raise _CandidateError(f"{type(error).__name__}: {error}{''.join(lines[-1:])}") from None


def _run(env: CompilerEnv, choose: Choose, name: str, *, explain: bool) -> _Outcome:
    taken: list[tuple[int, Any, Mapping[str, Any]]] = []

    def act(observation: Any, info: Mapping[str, Any]) -> int:
        with _candidate_errors():
            action = choose(observation, info)
        if action not in (0, 1):
            raise _CandidateError(f"expected the action 0 or 1, got {action}")
        if explain:
            taken.append((action, flat_part(observation), info))
        return action

    try:
        info = run_episode(env, act, options={"module": name})
    except NoDecisionError:
        return _Outcome()
    if info["error"]:
        return _Outcome(error=info["error"]["message"])
    costs = sorted(((-saved, index) for index, saved in enumerate(info.get("credit", ()))), reverse=True)[:COSTLY]
    costly = tuple((cost, _words(env, name, cost, *taken[index])) for cost, index in costs if cost > 0)
    return _Outcome(env.corpus.project(name), info["text"], info["baseline_text"], info["decisions"], costly)


def _words(env: CompilerEnv, module: str, cost: float, action: int, row: Any, info: Mapping[str, Any]) -> str:
    verb = "inlines" if action else "keeps"
    facts = ", ".join(f"{name}={row[env.feature_names.index(name)]:g}" for name in _NAMED if name in env.feature_names)
    return f"{module}: {info['context']} {verb} {info['callee'] or 'a call'}, {cost:+.0f} bytes ({facts})"
