"""Ways to give the same answers to a compiler, and to compile with the same policy; they return digests of objects.

`benchmarks/exactness.py` compares them on many modules, `test_same_object.py` on a few.
"""

import hashlib
import subprocess
import sys
import tempfile
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

from mlgo_clang.command_lines import cc1_commands, shown_text
from mlgo_clang.compiler import compiler_command
from mlgo_clang.files import digest_of
from mlgo_clang.programs import front_end_bitcode
from mlgo_gym import CompilerEnv, DecisionSite, as_vector, evaluate, load_policy
from mlgo_gym.corpus.driver import code_generation_flags
from mlgo_gym.episode.attribution.recipe import Recipe, write_recipe
from mlgo_gym.evaluation.trace import trace
from mlgo_gym.make_env import make_environment
from mlgo_gym.policies.loading import with_callee_features
from mlgo_gym.scheduling import FileStore, RayCluster, RemoteWork, WorkerFailure
from tests.fakes.compiles import finished_compiles, running_compile
from tests.policies.episodes import play

INLINE, EVICT, PRIORITY = "mlgo/Inline-v0", "mlgo/RegAllocEvict-v0", "mlgo/RegAllocPriority-v0"

TIMEOUT = 600.0
MAX_RANDOM = 2000
"""Number of random answers, after which clang's own choices follow; random inlining makes modules grow."""


def digest(data: bytes) -> str:
    """Return the first 16 hexadecimal digits of an object's SHA-256."""
    return hashlib.sha256(data).hexdigest()[:16]


def make(
    environment: str, corpus: str, *, compile_options: Mapping[str, Any] | None = None, **options: Any
) -> CompilerEnv:
    """Return an environment that raises if a compile fails."""
    options |= {"error_reward": None, "compile_options": {"timeout": TIMEOUT, **(compile_options or {})}}
    return make_environment(environment, {"corpus": corpus, **options})


@contextmanager
def recorded_objects() -> Iterator[list[str]]:
    """Record the digests of all objects that agents compile; the list is filled at the end."""
    objects: list[str] = []
    with finished_compiles() as compiles:
        yield objects
    objects += [digest(compiled.object_bytes) for compiled in compiles if not compiled.plain]


def random_action(space: gym.Space[Any], mask: Any, *key: object) -> Any:
    """Return a legal action that depends only on the key."""
    number = int.from_bytes(hashlib.blake2b(repr(key).encode(), digest_size=4).digest(), "little")
    if mask is not None:
        legal = np.flatnonzero(mask)
        return int(legal[number % len(legal)])
    if isinstance(space, gym.spaces.Discrete):
        return number % int(space.n)
    return np.full(space.shape or (), number % 1000 / 1000, np.float32)


def finish(env: CompilerEnv, info: dict[str, Any], seed: int, steps: int = sys.maxsize) -> dict[str, Any]:
    """Take random actions until the episode ends, or `steps` of them; return the last info."""
    over = False
    while not over and steps:
        action = random_action(env.action_space, info.get("action_mask"), seed, info["decision_index"])
        *_, terminated, truncated, info = env.step(action)
        over, steps = terminated or truncated, steps - 1
    return info


@dataclass
class Ways:
    """Ways to give the same random answers for one module; `answers` has the bytes of each answer of `single()`."""

    environment: str
    corpus: str
    module: str
    clang: str | None = None
    seed: int = 0
    max_random: int = MAX_RANDOM
    answers: list[bytes] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._start = {"module": self.module}
        self._full_compiles = {} if self.environment == INLINE else {"preoptimize": False}

    def make(self, *, compile_options: Mapping[str, Any] | None = None, **options: Any) -> CompilerEnv:
        """Return an environment for the module."""
        if "scope" not in options:
            options["max_decisions"] = self.max_random
        compile_options = {**self._full_compiles, **(compile_options or {})}
        return make(self.environment, self.corpus, clang=self.clang, compile_options=compile_options, **options)

    def single(self, **options: Any) -> list[str]:
        """Run one episode."""
        with recorded_objects() as objects:
            env = self.make(**options)
            _, info = env.reset(options=self._start)
            finish(env, info, self.seed)
            self.answers = [*running_compile(env).advice]
            env.close()
        return objects

    def preoptimized(self) -> list[str]:
        """Run one episode from bitcode that was optimised once."""
        return self.single(compile_options={"preoptimize": True})

    def vector(self) -> list[str]:
        """Run three episodes at once in a vector environment."""
        with recorded_objects() as objects:
            options: dict[str, Any] = {"corpus": self.corpus, "clang": self.clang, "max_decisions": self.max_random}
            options["compile_options"] = {"timeout": TIMEOUT, **self._full_compiles}
            envs = as_vector(gym.make_vec(self.environment, 3, error_reward=None, **options))
            _, info = envs.reset(options=self._start)
            over = np.zeros(3, np.bool_)
            while not over.any():
                rows = range(3)
                masks = info.get("action_mask", [None] * 3)
                actions = [
                    random_action(envs.single_action_space, masks[row], self.seed, int(info["decision_index"][row]))
                    for row in rows
                ]
                _, _, over, _, info = envs.step(np.array(actions))
            assert over.all()
            envs.close()
        return objects

    def forked(self) -> list[str]:
        """Fork an episode after a third of the answers, and the fork after two thirds; run all three to the end."""
        with recorded_objects() as objects:
            env = self.make()
            _, info = env.reset(options=self._start)
            third = min(len(self.answers), self.max_random) // 3
            info = finish(env, info, self.seed, third)
            fork = env.fork()
            fork_info = finish(fork, info, self.seed, third) if third else info
            second = fork.fork()
            assert fork.fork_method == second.fork_method == "snapshot", fork.fork_reason
            for each, last in ((second, fork_info), (env, info), (fork, fork_info)):
                finish(each, last, self.seed)
                each.close()
        return objects

    def warm(self) -> list[str]:
        """Run an episode, and another in a fork of the clang that waited at the first decision."""
        with recorded_objects() as objects:
            env = self.make(compile_options={"fork_resets": True})
            for _ in range(2):
                _, info = env.reset(options=self._start)
                finish(env, info, self.seed)
            assert running_compile(env).fork_method == "snapshot"
            env.close()
        return objects

    def by_function(self, functions: int = 3) -> list[tuple[str, str]]:
        """Answer at random in one function only: in an episode of the function and in one of the module.

        Returns both objects for each function; register allocation only.
        """
        whole = self.make(scope="module")  # without a limit of decisions, as an episode of one function
        # With a size as the reward, an episode of one function compiles the whole object.
        part = self.make(scope="function", metric="text")
        names = sorted(part.decisions(part.corpus.module(self.module)))
        chosen = names[:: max(len(names) // functions, 1)][:functions]
        pairs = []
        for function in chosen:
            with recorded_objects() as objects:
                for env, start in ((whole, self._start), (part, {**self._start, "function": function})):
                    _, info = env.reset(options=start)
                    over, count = False, 0
                    while not over:
                        action = info["default_action"]
                        if info["context"] == function:
                            mask = info.get("action_mask")
                            action, count = random_action(env.action_space, mask, self.seed, count), count + 1
                        *_, over, _, info = env.step(action)
            pairs.append((objects[0], objects[1]))
        whole.close()
        part.close()
        return pairs


def over_ray(ways: Ways) -> list[str]:
    """Run an episode in a worker of a Ray cluster; the driver sends the bitcode."""
    env = ways.make()
    module = env.corpus.module(ways.module)
    environment, seed, files = ways.environment, ways.seed, {"module.bc": module.bitcode.read_bytes()}
    flags = env.compilation(module).module.flags
    remote = {} if flags is None else {"flags": list(flags)}

    def play(store: FileStore, _: str) -> list[str]:
        bitcode = str(store.folder("module") / "module.bc")
        return Ways(environment, bitcode, "module", seed=seed).single(compile_options=remote)

    def start(store: FileStore) -> Callable[[str], list[str]]:
        return partial(play, store)

    from ray import cloudpickle

    cloudpickle.register_pickle_by_value(sys.modules[__name__])  # workers cannot import the tests
    with RayCluster(RemoteWork(start, lambda _: "module", lambda _: files), "local", 1) as cluster:
        ((_, objects),) = cluster.run(deque(["episode"]))
    assert not isinstance(objects, WorkerFailure), objects
    return objects


def cc1_flags(command: Sequence[str]) -> tuple[str, ...]:
    """Return the `-cc1` arguments with which a driver's command line compiles the bitcode of its source."""
    (line,) = cc1_commands(shown_text(command))
    return code_generation_flags(line)


def front_end(source: Path, level: str, folder: Path) -> tuple[list[str], dict[str, Any]]:
    """Write the bitcode of a source; return the words of its compile, and the arguments of an environment."""
    compiler = compiler_command("bundled", "g++" if source.suffix == ".cpp" else "gcc")
    words, bitcode = [f"-{level}", "-c", str(source), "-o", str(folder / "driver.o")], folder / "module.bc"
    bitcode.write_bytes(front_end_bitcode(compiler, words))
    options = {"flags": list(cc1_flags([*compiler, *words])), "timeout": TIMEOUT}
    return words, {"corpus": str(bitcode), "compile_options": options}


def wrapped(source: Path, words: list[str], *settings: str) -> str:
    """Compile a source by `mlgo-clang`; return the digest of its object."""
    program = Path(sys.executable).with_name("mlgo-clang++" if source.suffix == ".cpp" else "mlgo-clang")
    done = subprocess.run([program, "--mlgo-clang=bundled", *settings, *words], check=True, capture_output=True)
    assert not done.stderr, done.stderr
    return digest(Path(words[-1]).read_bytes())


def in_wrapper(source: Path, seed: int = 0) -> list[str]:
    """Compile a source in an environment, and by `mlgo-clang` with a recipe of the same random answers."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        words, arguments = front_end(source, "Oz", folder)
        with recorded_objects() as objects, make(INLINE, **arguments, max_decisions=MAX_RANDOM) as env:
            _, info = env.reset()
            finish(env, info, seed)
            answers = tuple(int.from_bytes(advice, "little") for advice in running_compile(env).advice)
        sites = {DecisionSite("all", 0, index): answer for index, answer in enumerate(answers)}
        recipe = Recipe("m", digest_of((folder / "module.bc").read_bytes()), "22.1.8", (), 1, 1, sites)
        write_recipe(recipe, folder / f"{recipe.digest}.recipe")
        return [*objects, wrapped(source, words, "--mlgo-policy=default", f"--mlgo-recipes={folder}")]


def policy_objects(source: Path, policy: str, level: str = "Oz") -> dict[str, str]:
    """Compile a source at a level in every way that takes the name of a policy; return the digest of each object."""
    found: dict[str, list[str]] = {}
    with tempfile.TemporaryDirectory() as name:
        words, arguments = front_end(source, level, Path(name))
        arguments["error_reward"] = None
        asked = with_callee_features(arguments, [policy])
        with recorded_objects() as found["gym.make"], make_environment(INLINE, asked) as env:
            play(env, load_policy(policy, env), env.corpus.names[0])
        corpus = arguments.pop("corpus")
        with recorded_objects() as found["evaluate"]:
            evaluate(INLINE, policies=[policy], corpus=corpus, env_kwargs=arguments)
        with recorded_objects() as found["trace"]:
            trace(INLINE, policy, corpus=corpus, output=Path(name, "trace"), env_kwargs=arguments)
        found["mlgo-clang"] = [wrapped(source, words, f"--mlgo-policy={policy}", "--mlgo-strict")]
    return {way: "".join(objects) for way, objects in found.items()}
