"""Wrong uses are refused in one line, which names the value and the remedy; as early as possible."""

import math
import warnings
from collections.abc import Iterator
from dataclasses import fields
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

import mlgo_gym
from mlgo_gym.corpus.module_order import ORDERS
from mlgo_gym.envs import InlineEnv
from mlgo_gym.envs.inline import InlineTask
from mlgo_gym.episode.argument_types import keyword_parameters
from mlgo_gym.episode.options import CompileOptions, EnvironmentOptions
from mlgo_gym.errors import ActionError, MlgoError
from tests.sampling import one_of_each

INLINE, EVICT, PRIORITY = "mlgo/Inline-v0", "mlgo/RegAllocEvict-v0", "mlgo/RegAllocPriority-v0"

pytestmark = pytest.mark.usefixtures("nothing_is_left")

ARGUMENTS: list[tuple[dict[str, Any], str]] = [
    # Types
    ({"credit": "no"}, "expected credit as True or False, got 'no'"),
    ({"max_decisions": 2.5}, "expected max_decisions as a whole number or None, got 2.5"),
    ({"max_decisions": True}, "expected max_decisions as a whole number or None, got True"),
    ({"error_reward": math.nan}, "expected error_reward as a finite number, 'lowest' or None, got nan"),
    ({"compile_options": {"timeout": "60"}}, "expected timeout as a finite number, got '60'"),
    ({"compile_options": {"extra_flags": [1]}}, "expected extra_flags as a list of strings, got [1]"),
    ({"compile_options": {"extra_flags": "-mllvm -x"}}, "got '-mllvm -x'; write ['-mllvm', '-x']"),
    ({"compile_options": ["timeout"]}, "expected compile_options as a dict, got ['timeout']"),
    ({"corpus": None}, "expected corpus as a string, a path or a Corpus, got None"),
    ({"metric": {"text": math.inf}}, "expected metric as a string, a dict from strings to finite numbers or None"),
    ({"module_order": {"c/*": -1}}, "expected weights ≥ 0 by globs of module names in module_order, got {'c/*': -1}"),
    # Values that would pay, or have no effect
    ({"error_reward": 0.0}, "expected error_reward < 0, 'lowest' or None, got 0.0; a failure must not pay"),
    ({"target": "nonsense"}, "got 'nonsense'"),
    ({"target": "thumbv7em"}, "got 'builtin'; omit it: a name such as 'zstd@Oz@thumbv7em' has a target"),
    ({"compile_options": {"flags": ["-O2"]}}, "got 'builtin'; omit it: extra_flags adds to recorded flags"),
    ({"target": "x86_64-linux", "compile_options": {"flags": ["-O2"]}}, "got both; name the target in the flags"),
    # Names
    ({"corpus": "zstdd"}, "there is no corpus 'zstdd'; did you mean 'zstd'?"),
    ({"corpus": "buitlin:train"}, "there is no corpus 'buitlin:train'; did you mean 'builtin'?"),
    ({"corpus": "builtin:trian"}, "got 'trian'; did you mean 'train'?"),
    ({"corpus": "builtin,lz5"}, "there is no corpus 'lz5'; did you mean 'lz4'?"),
    ({"corpus": "builtin@O9"}, "expected a level of Oz, Os, O2, got 'O9' in 'builtin@O9'"),
    ({"corpus": "zstd@Oz@thumbv7"}, "got 'thumbv7'; did you mean 'thumbv7em'?"),
    ({"corpus": "no/such/folder"}, "there is no corpus 'no/such/folder'; name a dataset of"),
    ({"metric": "txt"}, "got 'txt'; did you mean 'text'?"),
    ({"module_order": "shufle"}, "got 'shufle'; did you mean 'shuffle'?"),
    ({"maxdecisions": 3}, "did you mean 'max_decisions'?"),
    ({"xyzzy": 1}, "unexpected keyword argument 'xyzzy'; expected callee_features, clang, "),
    ({"compile_options": {"speed": 1}}, "speed"),
    *(
        ({name: "speed"}, f"expected {name}")
        for name in ("observation", "reward", "metric", "error_reward", "render_mode", "scope")
    ),
    # Values out of range
    ({"max_decisions": 0}, "expected max_decisions ≥ 1"),
    *(({"compile_options": {"timeout": seconds}}, "expected timeout > 0") for seconds in (0, -1.0)),
    ({"compile_options": {"flags": "-Oz -fPIC"}}, "expected flags as a list"),
    ({"compile_options": {"preoptimize": True}}, "preoptimize"),
    ({"timeout": 3}, "it is an entry of compile_options: compile_options={'timeout': …}"),
    ({"compile_options": {"memory_limit": 0}}, "expected memory_limit > 0 or None, got 0"),
    ({"compile_options": {"cpu_limit": 0.05}}, "expected cpu_limit ≥ 1 or None, got 0.05"),
    *(({"metric": {"text": weight}}, "expected positive weights by metrics of") for weight in (0, -1)),
    # Arguments without effect
    ({"clang": ""}, "expected clang as a path or a name on PATH, got ''; omit it for the bundled one"),
    ({"max_functions": 9}, "expected observation='graph' with max_functions=9, got 'flat'; omit it"),
    ({"max_functions": np.int64(9), "ir": True}, "expected observation='graph' with max_functions=9, got 'flat'"),
    ({"credit": True, "info": "numeric"}, "expected info='full' with credit=True, got 'numeric'"),
    # Metrics that functions do not share
    *(
        ({"metric": metric, "credit": True}, f"linked', got {metric!r}; use metric='text'")
        for metric in ("llvm_size", "object", {"text": 1, "object": 1})
    ),
]


def assert_is_one_line(error: BaseException, message: str) -> None:
    """Check that an error of this package is one line with a message, without a traceback of another."""
    assert message in str(error)
    assert "\n" not in str(error)


@pytest.mark.parametrize(("arguments", "message"), ARGUMENTS, ids=repr)
def test_an_argument_is_refused_when_the_environment_is_made(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(MlgoError) as caught:
        InlineEnv(**arguments)
    assert_is_one_line(caught.value, message)
    assert isinstance(caught.value, TypeError) == ("unexpected keyword" in str(caught.value))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Gymnasium also warns of an unknown `render_mode`
        with pytest.raises(MlgoError) as of_gymnasium:
            gym.make(INLINE, **{"render_mode": None, **arguments})
    assert str(of_gymnasium.value) == str(caught.value)


@pytest.mark.parametrize(
    "argument", [*keyword_parameters(InlineEnv), *(f"compile_options.{field.name}" for field in fields(CompileOptions))]
)
def test_numpys_scalars_are_read_as_pythons(argument: str) -> None:
    *outer, name = argument.split(".")

    def result(value: Any) -> Any:
        try:
            arguments = {outer[0]: {name: value}} if outer else {name: value}
            options, _ = EnvironmentOptions.of(keyword_parameters(InlineEnv), arguments)
            options.check(InlineTask())
        except MlgoError as error:
            return str(error).partition(", got")[0]
        read = getattr(options.compile_options if outer else options, name)
        return type(read), read

    for value in (True, False, 0, 1, -2, 3, 0.0, -0.5, 2.5, math.nan, math.inf):
        for scalar in (value, {"text": value}, {"*": value}):
            plain = next(iter(scalar.values())) if isinstance(scalar, dict) else scalar
            numpys = np.array(plain)[()]
            assert isinstance(numpys, np.generic)
            assert result(dict.fromkeys(scalar, numpys) if isinstance(scalar, dict) else numpys) == result(scalar)


VECTOR_ARGUMENTS: list[tuple[dict[str, Any], str]] = [
    ({"num_envs": "2"}, "expected num_envs ≥ 1, got '2'"),
    ({"num_envs": 0}, "expected num_envs ≥ 1, got 0"),
    ({"batch_size": 1.5}, "expected batch_size ≥ 1, got 1.5"),
    ({"batch_size": 0}, "expected batch_size ≥ 1, got 0"),
    ({"batch_size": 3}, "batch_size"),
    ({"prefetch": None}, "expected prefetch ≥ 0, got None"),
    ({"prefetch": -1}, "expected prefetch ≥ 0, got -1"),
    ({"num_envs": np.float64(2)}, "expected num_envs ≥ 1"),
    ({"batch_size": np.True_}, "expected batch_size ≥ 1"),
    ({"max_episode_steps": 0}, "expected max_episode_steps ≥ 1, got 0"),
    ({"max_episode_steps": np.float32(2)}, "expected max_episode_steps ≥ 1"),
    ({"autoreset_mode": "Never"}, "autoreset_mode"),
    ({"prefetsh": 1}, "unexpected keyword argument 'prefetsh'"),
]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [*one_of_each(ARGUMENTS, lambda case: type(next(iter(case[0].values())))), *VECTOR_ARGUMENTS],
)
def test_a_vector_environment_refuses_it_too(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises((MlgoError, TypeError)) as caught:
        gym.make_vec(INLINE, **{"num_envs": 2, **arguments})
    assert_is_one_line(caught.value, message)


@pytest.fixture(params=["single", "vector"])
def env(request: pytest.FixtureRequest, varied: str) -> Iterator[Any]:
    """An environment, and a vector environment of one."""
    made: Any = gym.make(INLINE, corpus=varied) if request.param == "single" else gym.make_vec(INLINE, 1, corpus=varied)
    yield made
    made.close()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"options": {"module": 3}}, "'module'"),
        ({"options": {"modul": "calls"}}, "got ['modul']"),
        ({"options": {"module": "cals"}}, "did you mean calls"),
        ({"options": {"function": "f"}}, 'expected the option "module" and scope="function"'),
        ({"options": 3}, "expected options as a dict"),
        ({"seed": "a"}, "got 'a'"),
        ({"seed": -1}, "expected seed ≥ 0, got -1"),
        ({"seed": 1.5}, "got 1.5"),
        ({"seed": np.float64(1)}, "expected seed"),
        ({"seed": np.int64(-1)}, "expected seed ≥ 0"),
        ({"options": {"state": "calls"}}, "expected the data of state().to_json(), got 'calls'"),
        ({"options": {"state": {"actions": None}}}, "expected the data of state().to_json()"),
        ({"options": {"state": {}, "module": "calls"}}, "expected the option 'state' alone, got ['module', 'state']"),
    ],
    ids=repr,
)
def test_a_wrong_reset_is_refused_and_the_episode_continues(env: Any, arguments: dict[str, Any], message: str) -> None:
    _, info = env.reset(seed=2, options={"module": "calls"})
    drawn = random_state(env)
    with pytest.raises(MlgoError) as caught:
        env.reset(**arguments)
    assert_is_one_line(caught.value, message)
    assert random_state(env) == drawn
    assert np.squeeze(env.step(info["default_action"])[4]["decision_index"]) == 1
    env.reset(seed=np.int64(3))


def random_state(env: Any) -> Any:
    """Return the state of the random generator of the environment, or of the first of a vector."""
    generator = env.unwrapped.np_random
    return (generator[0] if isinstance(generator, tuple) else generator).bit_generator.state


@pytest.mark.parametrize(
    ("name", "action", "replaced"),
    [
        (INLINE, math.nan, False),
        (INLINE, "1", False),
        (INLINE, 2, True),
        (INLINE, 10**400, True),
        (INLINE, np.float32(math.nan), False),
        (EVICT, np.uint8(33), True),
        (PRIORITY, 10**400, True),
        (PRIORITY, np.float64(1e39), True),
        (PRIORITY, np.longdouble("-1e400"), True),
        (EVICT, 33, True),
        (PRIORITY, np.array([math.nan], np.float32), False),
        (PRIORITY, 1.5, True),
        (PRIORITY, -math.inf, True),
    ],
    ids=repr,
)
def test_an_action_outside_the_space_raises_nan_always(name: str, action: Any, replaced: bool, varied: str) -> None:
    for strict in (True, False):
        env = gym.make(name, corpus=varied, strict=strict)
        _, info = env.reset(seed=1)
        if replaced and not strict:
            assert env.step(action)[4]["illegal_action"]
        else:
            with pytest.raises(ActionError) as caught:
                env.step(action)
            assert_is_one_line(caught.value, "expected a")
            assert not env.step(info["default_action"])[3]  # the decision waited
        env.close()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"policies": "defalt"}, "there is no policy 'defalt'; did you mean default"),
        ({"policies": ["treshold:20"]}, "did you mean threshold:20"),
        ({"policies": []}, "at least one policy"),
        ({"environment": "mlgo/Nothing-v0"}, "expected one of mlgo/Inline-v0"),
        ({"corpus": "zstdd"}, "did you mean 'zstd'?"),
        ({"split": "trian"}, "did you mean 'train'?"),
        ({"env_kwargs": {"max_decisions": "5"}}, "expected max_decisions as a whole number"),
        ({"env_kwargs": {"colour": 1}}, "does not take the arguments"),
        ({"env_kwargs": {"scope": "function"}}, "expected scope='module'"),
        ({"limit": 1.5}, "expected limit as a whole number or None, got 1.5"),
        ({"limit": 0}, "expected limit ≥ 1, got 0"),
    ],
    ids=repr,
)
def test_an_evaluation_refuses_it(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(MlgoError) as caught:
        mlgo_gym.evaluate(**{"environment": INLINE, "policies": ["default"], **arguments})
    assert_is_one_line(caught.value, message)


@pytest.mark.parametrize("order", ORDERS)
def test_a_corpus_without_modules_is_refused_in_every_order(order: str, varied: str) -> None:
    env = InlineEnv(corpus=mlgo_gym.open_corpus(varied)[:0], module_order=order)
    with pytest.raises(MlgoError) as caught:
        env.reset()
    assert_is_one_line(caught.value, "expected a module with a decision on inlining, got none among the 0 modules")


def test_flags_are_refused_where_a_corpus_object_records_them() -> None:
    corpus = mlgo_gym.open_corpus("builtin")
    env = InlineEnv(corpus=corpus, compile_options={"flags": ["-O1"]})
    with pytest.raises(MlgoError, match="got 'builtin'; omit it: extra_flags adds to recorded flags"):
        env.reset()
