"""Rules: those with a name, and conditions in files."""

import itertools
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mlgo_gym.deploy.c_code import decision_code
from mlgo_gym.env import CompilerEnv
from mlgo_gym.errors import PolicyError
from mlgo_gym.llvm.toolchain import bundled_command
from mlgo_gym.make_env import make_environment
from mlgo_gym.policies import load_policy
from mlgo_gym.policies.loading import needs_callee_features, plain_clang_flags, policy_identity
from mlgo_gym.policies.rules import RuleText
from tests.policies.episodes import play

EVICTIONS = "c/bigint"
"""A builtin module with evictions that compiles fast."""


def actions(env: CompilerEnv, policy: str, module: str = "calls", seed: int = 0) -> list[Any]:
    return play(env, load_policy(policy, env, seed=seed), module)[0]


def test_rules_of_inlining(inline: CompilerEnv, corpus: Path) -> None:
    default, info = play(inline, load_policy("default", inline), "calls")
    assert info["text"] == info["baseline_text"]
    assert actions(inline, "threshold:5") == default, "clang's own threshold at -Oz"
    for name, action in (("never", 0), ("always", 1), ("threshold:-1e9", 0), ("threshold:1e9", 1)):
        assert set(actions(inline, name)) == {action}
    observation, info = inline.reset(seed=0)
    cost = observation[inline.feature_names.index("cost_estimate")]
    at_cost, above = (load_policy(f"threshold:{cost + more}", inline).act(observation, info) for more in (0, 1))
    assert (at_cost, above) == (0, 1)


def test_random_depends_on_seed_and_module_only(inline: CompilerEnv, priority: CompilerEnv) -> None:
    cases = list(itertools.product(("calls", "more/calls"), (5, 6)))
    first, again = ([actions(inline, "random", module, seed) for module, seed in cases] for _ in range(2))
    assert first == again
    assert len(set(map(tuple, first))) == len(cases)
    drawn = "".join(str(action) for actions in first[:2] for action in actions)
    assert drawn == "100000110001010011", "other releases draw the same"
    assert load_policy("random", inline).act(None, {"decision_index": 0, "module": "no UTF-8: \udcff"}) in (0, 1)
    assert len({action.item() for action in actions(priority, "random")}) > 1


def test_rules_of_evictions_compare_weights_and_stay_within_the_mask(evict: CompilerEnv) -> None:
    default, at_one, above, below = (
        actions(evict, name, EVICTIONS) for name in ("default", "ratio:1", "ratio:3", "ratio:0.1")
    )
    assert at_one == default, "LLVM's rule"
    # The first decision that differs is at the same place in all episodes.
    nothing = evict.action_space.n - 1  # type: ignore[attr-defined] # discrete
    assert next(one for one, other in zip(below, default, strict=False) if one != other) == nothing
    assert next(one for one, other in zip(above, default, strict=False) if one != other) != nothing
    for name in ("random", "first_legal", "never_evict"):
        assert len(actions(evict, name, EVICTIONS)) > 10
    first, never = load_policy("first_legal", evict), load_policy("never_evict", evict)
    assert first.act(None, {"action_mask": np.array([0, 0, 1, 0, 1], np.int8)}) == 2
    for mask, action in (([1, 0, 1], 2), ([1, 0, 0], 0)):
        assert never.act(None, {"action_mask": np.array(mask, np.int8), "default_action": 0}) == action


def test_size_order_gives_longer_live_ranges_more(priority: CompilerEnv) -> None:
    policy = load_policy("size_order", priority)
    observation, info = priority.reset(options={"module": "calls"})
    sizes, priorities = [], []
    over = False
    while not over:
        sizes.append(observation[priority.feature_names.index("li_size")])
        priorities.append(policy.act(observation, info))
        observation, _, over, _, info = priority.step(priorities[-1])
    assert len(set(sizes)) > 3
    assert np.argsort(sizes, kind="stable").tolist() == np.argsort(np.ravel(priorities), kind="stable").tolist()


CODE = """
class Seven:
    number = 7

    def act(self, observation, info):
        return self.number


def make():
    return Seven()


class OfAnEnvironment(Seven):
    def __init__(self, env):
        self.number = len(env.feature_names)


ready = Seven()
nothing = 3
"""


@pytest.fixture
def code(tmp_path: Path) -> Path:
    path = tmp_path / "mine.py"
    path.write_text(CODE)
    return path


def test_names_in_a_file_are_policies(inline: CompilerEnv, code: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("Seven", "make", "ready"):
        assert load_policy(f"{code}:{name}", inline).act(None, {}) == 7
    assert load_policy(f"{code}:OfAnEnvironment", inline).act(None, {}) == len(inline.feature_names)
    identity = policy_identity(f"{code}:Seven")
    code.write_text(CODE.replace("7", "8"))
    assert load_policy(f"{code}:Seven", inline).act(None, {}) == 8
    assert policy_identity(f"{code}:Seven") != identity
    monkeypatch.chdir(code.parent)  # modules are found in the working folder
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "mine", raising=False)
    assert load_policy("mine:Seven", inline).act(None, {}) == 8


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("nver", "did you mean never"),
        ("threshold:many", "expected threshold:NUMBER, got 'threshold:many'"),
        ("threshold:nan", "expected threshold:NUMBER, got 'threshold:nan'"),
        ("clang:-mllvm,-inline-threshold=20", "only an evaluation can use it"),
        ("no_such_package.policies:Name", "there is no module 'no_such_package'"),
        ("no/such/file.py:Name", "expected a file with a policy, got no/such/file.py"),
        ("FILE:Eight", "expected a name of Seven, make, OfAnEnvironment, ready, nothing, got 'Eight'"),
        ("FILE:nothing", "expected a policy with a method act"),
        *(
            (name, "decisions on eviction, got one with decisions on inl")
            for name in ("first_legal", "never_evict", "ratio:1")
        ),
        ("last-call", "^last-call needs callee features, .* callee_features=True$"),
        ("EVICT ratio:0", "expected ratio:NUMBER with a number > 0, got ratio:0"),
        ("EVICT never", "the policy 'never' needs an environment with the actions 0 and 1"),
        ("EVICT size_order", "the policy 'size_order' needs an environment with decisions on priority"),
    ],
)
def test_wrong_policies_are_named(inline: CompilerEnv, evict: CompilerEnv, code: Path, spec: str, message: str) -> None:
    env = evict if spec.startswith("EVICT") else inline
    with pytest.raises(PolicyError, match=message):
        load_policy(spec.removeprefix("EVICT ").replace("FILE", str(code)), env)


def test_flags_of_plain_clang_are_separated_by_commas_or_blanks() -> None:
    threshold = ("-mllvm", "-inline-threshold=20")
    assert plain_clang_flags("clang:-mllvm,-inline-threshold=20") == threshold
    assert plain_clang_flags("clang:-mllvm -inline-threshold=20") == threshold
    assert plain_clang_flags("clang:-mllvm '-x=a b,c'") == ("-mllvm", "-x=a b,c")
    for spec in ("clang:", "clang:-a,,-b", "clang:-a 'b"):
        with pytest.raises(PolicyError):
            plain_clang_flags(spec)


CONDITION = "a < 5 or not (b == 4 and -1 <= c < a - 2 * b) and a != c and (b > 4 or c + 1 >= a)"


def write(folder: Path, text: str) -> Path:
    path = folder / "mine.rule"
    path.write_text(text)
    return path


def test_a_condition_holds_as_in_python_and_in_c(tmp_path: Path) -> None:
    rule = RuleText.parse(f"# a comment\n{CONDITION.replace(' or', ' # another' + chr(10) + 'or')}\n", "test")
    assert (rule.text, rule.features) == (CONDITION, ("a", "b", "c"))
    rows = np.array(list(itertools.product([-1, 0.5, 4, 5, 6, 16777216], repeat=3)), np.float32)
    expected = []
    for a, b, c in rows.tolist():
        expected.append(a < 5 or (not (b == 4 and -1 <= c < a - 2 * b) and a != c and (b > 4 or c + 1 >= a)))
    assert [rule(row) for row in rows] == expected
    assert 0 < sum(expected) < len(expected)
    policy = decision_code(f"rule:{write(tmp_path, CONDITION)}")
    calls = "".join(f"  total = total * 3 + mlgo_yes(rows[{number}]);\n" for number in range(len(rows)))
    table = ", ".join(f"{{{', '.join(f'{value:.1f}f' for value in row)}}}" for row in rows.tolist())
    source = tmp_path / "rule.c"
    source.write_text(
        f"{policy.code}\nstatic const float rows[][3] = {{{table}}};\n"
        f"unsigned long long mlgo(void) {{\n  unsigned long long total = 0;\n{calls}  return total;\n}}\n"
    )
    zig, mode = bundled_command()
    library = tmp_path / "rule.ll"
    subprocess.run([zig, mode, "-O2", "-S", "-emit-llvm", source, "-o", library], check=True)
    total = 0
    for holds in expected:
        total = (total * 3 + holds) % 2**64
    assert f"ret i64 {total - 2**64 if total >= 2**63 else total}" in library.read_text()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", r"a comparison, or several with and, or, not in .*, got '\(\)'"),
        ("a", "a comparison, or several"),
        ("a < 'b'", "a feature, a number, or a sum or product of these in .*, got"),
        ("a < open(b)", r"a feature, a number, .* got 'open\(b\)'"),
        ("a in b", "one of < <= > >= == != in"),
        ("a < 1 or", "expected a condition in .*, got 'a < 1 or': invalid syntax"),
        ("(" * 300 + "a < 1" + ")" * 300, "expected a condition in"),
        ("a < 1", "needs 1 features that are missing: a; got"),
        ("callee_last == 1", "callee features, which this environment does not compute; make it with"),
    ],
)
def test_another_text_is_one_clear_line(text: str, message: str, tmp_path: Path, inline: CompilerEnv) -> None:
    with pytest.raises(PolicyError, match=message) as error:
        load_policy(f"rule:{write(tmp_path, text)}", inline)
    assert "\n" not in str(error.value)


def test_another_file_is_one_clear_line(tmp_path: Path, inline: CompilerEnv) -> None:
    (tmp_path / "mine.txt").write_text("cost_estimate < 5")
    for name, message in (("none.rule", r"there is no .*none\.rule"), ("mine.txt", r"suffix \.rule, got .*mine\.txt")):
        with pytest.raises(PolicyError, match=message):
            load_policy(f"rule:{tmp_path / name}", inline)


def test_last_call_is_its_file(tmp_path: Path) -> None:
    assert needs_callee_features("last-call")
    assert not needs_callee_features(f"rule:{write(tmp_path, 'cost_estimate < 20')}")
    name, digest = policy_identity("last-call").split()
    assert (name, len(digest)) == ("last-call", 64)
    with make_environment("mlgo/Inline-v0", {"corpus": "builtin", "callee_features": True}) as env:
        names = ("cost_estimate", "callee_last", "callee_kept", "callee_linkage")
        columns = list(map(env.feature_names.index, names))
        policy = load_policy("last-call", env)
        rule, other = (
            play(env, load_policy(name, env), "cpp/small_string")[1] for name in ("last-call", "threshold:5")
        )
        assert rule["text"] < other["text"]
        observation, info = env.reset(seed=0)
        for *values, answer in (
            (4, 0, 1, 3, 1),
            (5, 0, 0, 0, 0),
            (14_999, 1, 0, 1, 1),
            (15_000, 1, 0, 1, 0),
            (9, 1, 1, 0, 0),
        ):
            observation[columns] = values
            assert policy.act(observation, info) == answer
