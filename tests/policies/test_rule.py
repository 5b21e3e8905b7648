"""Rules in files: the condition, its C, and the bundled rule `last-call`."""

from __future__ import annotations

import itertools
import subprocess
from pathlib import Path

import numpy as np
import pytest

from mlgo_gym.deploy.c_code import decision_code
from mlgo_gym.env import CompilerEnv
from mlgo_gym.errors import PolicyError
from mlgo_gym.llvm.toolchain import bundled_command
from mlgo_gym.make_env import make_environment
from mlgo_gym.policies import act_batch, load_policy
from mlgo_gym.policies.loading import needs_callee_features, policy_identity
from mlgo_gym.policies.rules import RuleText
from tests.policies.episodes import play

CONDITION = "a < 5 or not (b == 1 and -1 <= c < a - 2 * b) and a != c"


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
        expected.append(a < 5 or (not (b == 1 and -1 <= c < a - 2 * b) and a != c))
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
        cost, last, kept, linkage = observation[columns]
        assert policy.act(observation, info) == (cost < 5 or (last == 1 and kept == 0 and linkage in (0, 1)))
        batch = np.stack([observation, observation])
        assert act_batch(policy, batch, [info, info]) == [policy.act(observation, info)] * 2
