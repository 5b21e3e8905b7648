"""Whether the same answers make the same object in every way that there is to give them.

    python -m benchmarks.same_object --corpus builtin --corpus zstd --limit 20 --output runs/ways.jsonl
    python -m benchmarks.same_object --corpus builtin --clang clang-22 --plugin 22 --output runs/ways.jsonl

One list of random answers for a module is followed in a single environment, in a vector environment, in forks, from
warm starts, with answers sent ahead, by function, in a pass plugin, in a worker of a Ray cluster (`--ray`) and, for the
sources of `builtin`, in `mlgo-clang`.
A run that was cut off goes on where it was; `benchmarks/exactness.py` makes a page of it.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

import mlgo_gym
from benchmarks.checked_modules import CheckedModules, checking_parser
from mlgo_clang.compiler import compiler_command
from mlgo_clang.recipes import digest_of, front_end_bitcode
from mlgo_gym.corpus.builtin import PROGRAMS
from mlgo_gym.deploy.decision_code import DecisionCode
from mlgo_gym.deploy.plugin import build_plugin, installed_llvm
from mlgo_gym.deploy.recipe_search import cc1_flags
from mlgo_gym.env import CompilerEnv
from mlgo_gym.episode.episode import Episode
from mlgo_gym.scheduling import Abroad, Backlog, EachAlone, Lost, RayCluster, Shelf
from mlgo_gym.scheduling.ray_cluster import LOCAL
from mlgo_gym.session.session import Session
from mlgo_gym.storage.recipe import Recipe, Visit, write_recipe
from mlgo_gym.tasks.measurement import Measurement
from mlgo_gym.vector_env import as_vector

INLINE, EVICT, PRIORITY = "mlgo/Inline-v0", "mlgo/RegAllocEvict-v0", "mlgo/RegAllocPriority-v0"

TIMEOUT = 600.0
MOST = 2000
"""After so many random answers clang's own choices follow: a module that is inlined at random grows."""


def digest(data: bytes) -> str:
    """Return a short name of an object."""
    return hashlib.sha256(data).hexdigest()[:16]


def make(environment: str, corpus: str, **options: Any) -> CompilerEnv:
    """Return an environment that raises when a compile fails."""
    made = gym.make(environment, corpus=corpus, on_error="raise", timeout=TIMEOUT, disable_env_checker=True, **options)
    env = made.unwrapped
    assert isinstance(env, CompilerEnv)
    return env


@contextmanager
def recorded() -> Iterator[list[str]]:
    """Give the names of all objects that agents' compiles make."""
    made: list[str] = []
    measure = Episode._measure

    def measured(self: Episode) -> Measurement:
        if self._baseline_session is None:
            made.append(digest(self.session.finish(0.0).object_bytes))
        return measure(self)

    Episode._measure = measured  # type: ignore[method-assign] # a benchmark listens in
    try:
        yield made
    finally:
        Episode._measure = measure  # type: ignore[method-assign] # as above


def random_action(space: gym.Space[Any], mask: Any, *key: object) -> Any:
    """Return a legal action that depends on nothing but the key."""
    number = int.from_bytes(hashlib.blake2b(repr(key).encode(), digest_size=4).digest(), "little")
    if mask is not None:
        legal = np.flatnonzero(mask)
        return int(legal[number % len(legal)])
    if isinstance(space, gym.spaces.Discrete):
        return number % int(space.n)
    return np.full(space.shape or (), number % 1000, np.float32)


def finish(env: CompilerEnv, info: dict[str, Any], seed: int, steps: int = sys.maxsize) -> dict[str, Any]:
    """Take random actions until the episode is over, or so many."""
    over = False
    while not over and steps:
        action = random_action(env.action_space, info.get("action_mask"), seed, info["decision"])
        *_, terminated, truncated, info = env.step(action)
        over, steps = terminated or truncated, steps - 1
    return info


class Ways:
    """The ways to follow the same answers in a module.

    Args:
        environment: the name of the environment.
        corpus: the corpus.
        module: the module's name.
        clang: the compiler.
        seed: of the answers.

    Attributes:
        answers: the bytes of each answer; there once `single()` has run.
    """

    def __init__(self, environment: str, corpus: str, module: str, clang: str | None = None, seed: int = 0) -> None:
        self.environment, self.corpus, self.module, self.clang, self.seed = environment, corpus, module, clang, seed
        self.answers: list[bytes] = []
        self._start = {"module": module}

    def make(self, **options: Any) -> CompilerEnv:
        """Return an environment for the module."""
        if self.environment != INLINE:
            options = {"preoptimize": False, **options}
        if "scope" not in options:
            options["max_decisions"] = MOST
        return make(self.environment, self.corpus, clang=self.clang, **options)

    def single(self, **options: Any) -> list[str]:
        """Play an episode."""
        with recorded() as made:
            env = self.make(**options)
            _, info = env.reset(options=self._start)
            finish(env, info, self.seed)
            assert env._stepper is not None
            self.answers = env._stepper.episode._answers.copy()
            env.close()
        return made

    def preoptimized(self) -> list[str]:
        """Play an episode on bitcode that was optimised once."""
        return self.single(preoptimize=True)

    def vector(self) -> list[str]:
        """Play three episodes at once."""
        with recorded() as made:
            options: dict[str, Any] = {} if self.environment == INLINE else {"preoptimize": False}
            envs = as_vector(
                gym.make_vec(
                    self.environment, 3, corpus=self.corpus, clang=self.clang, on_error="raise", timeout=TIMEOUT,
                    max_decisions=MOST, **options,
                )
            )  # fmt: skip
            _, info = envs.reset(options=self._start)
            while len(made) < 3:
                rows = range(3)
                masks = info.get("action_mask", [None] * 3)
                actions = [
                    random_action(envs.single_action_space, masks[row], self.seed, int(info["decision"][row]))
                    for row in rows
                ]
                *_, info = envs.step(np.array(actions))
            envs.close()
        return made

    def forked(self) -> list[str]:
        """Fork an episode when a third of the answers are given, and the fork at two thirds; play all to their end."""
        with recorded() as made:
            env = self.make()
            _, info = env.reset(options=self._start)
            most = min(len(self.answers), MOST)
            info = finish(env, info, self.seed, most // 3)
            twin = env.fork()
            later = finish(twin, info, self.seed, most // 3) if most // 3 else info
            third = twin.fork()
            assert twin.fork_method == third.fork_method == "snapshot", twin.fork_reason
            for each, known in ((third, later), (env, info), (twin, later)):
                finish(each, known, self.seed)
                each.close()
        return made

    def warm(self) -> list[str]:
        """Play an episode, and another in a copy of the clang that waited at the first decision."""
        with recorded() as made:
            env = self.make(warm_resets=True)
            for _ in range(2):
                _, info = env.reset(options=self._start)
                finish(env, info, self.seed)
            assert env._stepper is not None
            assert env._stepper.episode.fork_method == "snapshot"
            env.close()
        return made

    def ahead(self) -> list[str]:
        """Send all answers before they are asked for."""
        env = self.make()
        compilation = env.compilation(env.corpus.module(self.module))
        with Session(compilation.command, env.task.advisors, confined=compilation.confined) as session:
            session.advise_ahead(self.answers)
            assert session.wait(TIMEOUT) is None
            return [digest(session.finish(TIMEOUT).object_bytes)]

    def by_function(self, most: int = 3) -> list[tuple[str, str]]:
        """Decide some functions alone, clang all others: in an episode of the function, and in one of the module.

        Returns:
            For each function, for inlining each component of the call graph, both objects.
        """
        whole = self.make(**({"contexts": True} if self.environment == INLINE else {}))
        # By a size as the reward, the compile of an episode of one function goes on to its object.
        part = self.make(scope="function", reward="text_size")
        names = sorted(part.decisions(part.corpus.module(self.module)))
        chosen = names[:: max(len(names) // most, 1)][:most]
        pairs = []
        for function in chosen:
            with recorded() as made:
                for env, start in ((whole, self._start), (part, {**self._start, "function": function})):
                    _, info = env.reset(options=start)
                    over, asked = False, 0
                    while not over:
                        action = info["default_action"]
                        if info["context"] == function:
                            mask = info.get("action_mask")
                            action, asked = random_action(env.action_space, mask, self.seed, asked), asked + 1
                        *_, over, _, info = env.step(action)
            pairs.append((made[0], made[1]))
        whole.close()
        part.close()
        return pairs

    def plugin(self, library: Path) -> list[str]:
        """Let a plugin of `answering()` give the answers, in clang's own process."""
        env = self.make()
        compilation = env.compilation(env.corpus.module(self.module))
        with tempfile.TemporaryDirectory() as folder:
            answers, output = Path(folder, "answers"), Path(folder, "object.o")
            answers.write_bytes(bytes(48 + (int.from_bytes(each, "little") != 0) for each in self.answers))
            subprocess.run(
                [*compilation.command, f"-fpass-plugin={library}", "-o", str(output)],
                env={**os.environ, "MLGO_ANSWERS": str(answers)}, check=True, stdin=subprocess.DEVNULL,
            )  # fmt: skip
            return [digest(output.read_bytes())]


def over_ray(ways: Ways) -> list[str]:
    """Play an episode of the module in a worker of a Ray cluster, to which its bitcode is sent."""
    env = ways.make()
    module = env.corpus.module(ways.module)
    environment, seed, files = ways.environment, ways.seed, {"module.bc": module.bitcode.read_bytes()}
    flags = env.compilation(module).module.flags
    remote = {} if flags is None else {"flags": list(flags)}

    def play(shelf: Shelf, _: str) -> list[str]:
        bitcode = str(shelf.folder("module") / "module.bc")
        return Ways(environment, bitcode, "module", seed=seed).single(**remote)

    def start(_: int, shelf: Shelf) -> EachAlone[str, list[str]]:
        return EachAlone(partial(play, shelf))

    with RayCluster(Abroad(start, lambda _: "module", lambda _: files), LOCAL, 1) as cluster:
        ((_, made),) = cluster.run(Backlog(["episode"]))
    assert not isinstance(made, Lost), made
    return made


def answering(major: int, folder: Path) -> Path:
    """Build a plugin that answers as the file `$MLGO_ANSWERS` says, which must be as long as there are questions."""
    code = """#include <stdio.h>
#include <stdlib.h>
static int mlgo_yes(const float *) {
  static FILE *answers = fopen(getenv("MLGO_ANSWERS"), "r");
  int answer = fgetc(answers);
  if (answer == EOF)
    abort();
  return answer == '1';
}
"""
    library = folder / "answering.so"
    build_plugin(DecisionCode("a list of answers", (), code), installed_llvm(f"llvm-config-{major}"), library)
    return library


def drive(source: Path, seed: int = 0) -> list[str]:
    """Follow random answers in a source: in `mlgo-clang`, by a recipe, and in an environment on its bitcode."""
    language = "g++" if source.suffix == ".cpp" else "gcc"
    compiler = compiler_command("bundled", language)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        words = ["-Oz", "-c", str(source), "-o", str(folder / "driver.o")]
        bitcode = front_end_bitcode(compiler, words)
        (folder / "module.bc").write_bytes(bitcode)
        flags = list(cc1_flags([*compiler, *words]))
        ways = Ways(INLINE, str(folder / "module.bc"), "module", seed=seed)
        with recorded() as made:
            env = make(INLINE, ways.corpus, flags=flags, max_decisions=MOST)
            _, info = env.reset(options={"module": env.corpus.names[0]})
            finish(env, info, seed)
            assert env._stepper is not None
            answers = tuple(int.from_bytes(each, "little") for each in env._stepper.episode._answers)
            env.close()
        recipe = Recipe("m", digest_of(bitcode), "22.1.8", (), 1, 1, (Visit("all", 0, answers),))
        write_recipe(recipe, folder / f"{recipe.digest}.recipe")
        program = Path(sys.executable).with_name("mlgo-clang" if language == "gcc" else "mlgo-clang++")
        strict = ["--mlgo-policy=default", f"--mlgo-recipes={folder}", "--mlgo-clang=bundled"]
        done = subprocess.run([program, *strict, *words], check=True, capture_output=True)
        assert not done.stderr, done.stderr
        return [*made, digest((folder / "driver.o").read_bytes())]


def check_ways(
    environment: str, corpus: str, module: str, clang: str | None, plugin: Path | None, *, ray: bool = False
) -> dict[str, Any]:
    """Return which ways make the object of a single environment, and which do not."""
    ways = Ways(environment, corpus, module, clang)
    first = ways.single()[0]
    answers = ways.answers
    told: dict[str, Callable[[], list[str]]] = {
        "vector": ways.vector, "forked": ways.forked, "warm": ways.warm, "ahead": ways.ahead,
    }  # fmt: skip
    if environment != INLINE:
        told["preoptimized"] = ways.preoptimized
    if ray:
        told["ray"] = lambda: over_ray(ways)
    if plugin is not None and environment == INLINE:
        told["plugin"] = lambda: ways.plugin(plugin)
    verdicts, failed = {}, []
    for name, way in told.items():
        try:
            verdicts[name] = set(way()) == {first} and ways.answers == answers
        except mlgo_gym.errors.MlgoError as error:
            failed.append(f"{name}: {str(error)[:300]}")
    sources = list(PROGRAMS.glob(f"{module}.c*")) if corpus.partition("@")[0] == "builtin" and clang is None else []
    if environment == INLINE and sources:
        try:
            verdicts["mlgo-clang"] = len(set(drive(sources[0]))) == 1
        except mlgo_gym.errors.MlgoError as error:
            failed.append(f"mlgo-clang: {str(error)[:300]}")
    verdicts["by function"] = all(whole == part for whole, part in ways.by_function())
    return {"answers": len(answers), "equal": verdicts, **({"error": "; ".join(failed)} if failed else {})}


def main() -> None:
    """Check what was not checked yet, one line of JSON for each module and environment."""
    parser = checking_parser(__doc__, "runs/ways.jsonl")
    parser.add_argument("--plugin", type=int, help="build a plugin for this LLVM; --clang has to be its clang")
    parser.add_argument("--ray", action="store_true", help="also in a worker of a Ray cluster of this machine")
    arguments = parser.parse_args()
    with CheckedModules(arguments.output) as checked, tempfile.TemporaryDirectory() as folder:
        plugin = answering(arguments.plugin, Path(folder)) if arguments.plugin else None
        for corpus in arguments.corpus:
            for environment in arguments.environment or (INLINE, EVICT, PRIORITY):
                opened = make(environment, corpus, clang=arguments.clang)
                clang = opened.toolchain.version_text + ("" if opened.toolchain.bundled else " (Debian)")
                for module in list(opened.with_decisions())[: arguments.limit]:
                    find = partial(
                        check_ways, environment, corpus, module.name, arguments.clang, plugin, ray=arguments.ray
                    )
                    checked.check(environment, corpus, module.name, clang, find)


if __name__ == "__main__":
    main()
