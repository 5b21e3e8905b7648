"""Labels by flips are those of single flips, and the seed determines them."""

from __future__ import annotations

from mlgo_gym.make_env import make_environment
from mlgo_gym.policies import load_policy
from mlgo_gym.training.flip_labels import label_by_flips


def test_labels_equal_single_flips(varied: str) -> None:
    env = make_environment("mlgo/Inline-v0", {"corpus": varied})
    module = env.corpus.module("many_calls")
    found = label_by_flips(env.compilation(module), env.task, load_policy("default", env), compiles=12, check=9)
    assert found.labels
    assert found.decisions == sum(env.decisions(module).values())
    assert len(found.checked) == min(9, len(found.labels))
    assert all(abs(label - alone) <= 16 for label, alone in found.checked), found.checked


def test_the_same_seed_gives_the_same_labels(varied: str) -> None:
    env = make_environment("mlgo/Inline-v0", {"corpus": varied})
    policy = load_policy("never", env)
    compilation = env.compilation(env.corpus.module("mixed"))
    one, two = (label_by_flips(compilation, env.task, policy, compiles=3, seed=7) for _ in range(2))
    assert one.labels == two.labels
    assert all(label.decision.answer == 0 for label in one.labels)


def test_the_columns_have_every_feature_of_every_label(varied: str) -> None:
    env = make_environment("mlgo/Inline-v0", {"corpus": varied})
    policy = load_policy("default", env)
    found = label_by_flips(env.compilation(env.corpus.module("mixed")), env.task, policy, compiles=3)
    dtype = env.task.headers[0].dtype
    columns = found.columns(dtype)
    assert set(dtype.names or ()) < set(columns)
    assert {len(values) for values in columns.values()} == {len(found.labels)}
    assert columns["bytes"].tolist() == [label.bytes for label in found.labels]
    found.labels.clear()
    assert found.columns(dtype) == {}
