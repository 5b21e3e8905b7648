"""Run a policy over a corpus and write down every decision."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from mlgo_gym.errors import MlgoError
from mlgo_gym.evaluation.environment import make_environment
from mlgo_gym.policies import load_policy
from mlgo_gym.policies.loading import policy_identity, with_calls
from mlgo_gym.storage.cache import naming
from mlgo_gym.trajectories.logs import write_log
from mlgo_gym.trajectories.trace_folder import EPISODES, TracedEpisode, TraceMeta, log_name, write_meta
from mlgo_gym.trajectories.trajectory import Trajectory, record_trajectory


def trace(
    environment: str,
    policy: str,
    *,
    output: str | Path,
    corpus: str = "builtin",
    env_kwargs: Mapping[str, Any] | None = None,
    seed: int = 0,
    limit: int | None = None,
    trust: bool = False,
    progress: Callable[[Trajectory | None], object] = lambda _: None,
) -> list[TracedEpisode]:
    """Write the training logs of a policy over a corpus, and return what was written.

    Modules in which there is nothing to decide have none. Illegal actions and failing compiles are treated as the
    environment's arguments `strict` and `on_error` say; an episode whose compile failed has an `error`.

    Args:
        environment: the environment's id, for instance `mlgo/Inline-v0`.
        policy: what `load_policy` takes; if it sees calls, the environment foretells them.
        output: a folder that is not there yet, or is empty.
        corpus: what `open_corpus` takes.
        env_kwargs: further arguments of the environment, JSON values.
        seed: what random policies and `limit` depend on.
        limit: take so many of the modules, drawn at random.
        trust: run the recorded flags of the corpus whatever they are; the environment's argument of that name.
        progress: called after each module.

    Raises:
        CompilerError: a compile failed, with `on_error="raise"`.
        ActionError: an action was illegal, with `strict`.
        MlgoError: the environment, the corpus, the policy or the output cannot be used so.
    """
    folder = Path(output)
    if folder.exists() and any(folder.iterdir()):
        raise MlgoError(f"a trace is written to an empty folder, and {folder} is not; choose another, or delete it")
    arguments = with_calls({**(env_kwargs or {}), **({"trust": True} if trust else {})}, [policy])
    if arguments.get("scope", "module") != "module":
        raise MlgoError("a trace goes through a corpus module by module; leave scope='function' out")
    env = make_environment(environment, {**arguments, "corpus": corpus})
    decides = load_policy(policy, env, seed=seed)
    modules = env.corpus if limit is None or limit >= len(env.corpus) else env.corpus.sample(limit, seed=seed)
    if limit is None and env.corpus.endless:
        raise MlgoError(f"the corpus {env.corpus.name} has no end; give a limit")
    folder.mkdir(parents=True, exist_ok=True)
    kept = {name: value for name, value in arguments.items() if name != "clang"}
    identity = policy_identity(policy)
    write_meta(folder, TraceMeta(environment, kept, corpus, identity, env.toolchain.version_text, seed))
    episodes = []
    with (folder / EPISODES).open("w") as lines:
        for module in modules:
            trajectory = record_trajectory(env, decides, module)
            if trajectory is not None:
                episodes.append(_write(folder, trajectory, env.task.advisors, env.task.headers))
                with naming(folder / EPISODES):
                    lines.write(json.dumps(asdict(episodes[-1])) + "\n")
                    lines.flush()
            progress(trajectory)
    return episodes


def _write(folder: Path, trajectory: Trajectory, advisors: Any, headers: Any) -> TracedEpisode:
    logs = []
    for number, (advisor, header) in enumerate(zip(advisors, headers, strict=True) if trajectory.steps else ()):
        name = log_name(trajectory.module, advisor.name if len(advisors) > 1 else None)
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        own = [at for at, step in enumerate(trajectory.steps) if step.decision.advisor == number]
        if trajectory.rewards is None:
            rewards = [*(0.0 for _ in own[1:]), trajectory.reward] if own else []
        else:
            rewards = [trajectory.rewards[at] for at in own]
        with naming(path), path.open("wb") as stream:
            write_log(stream, header, [trajectory.steps[at] for at in own], rewards)
        logs.append(name)
    return TracedEpisode(
        trajectory.module,
        tuple(logs),
        len(trajectory.steps),
        trajectory.handed_over,
        trajectory.reward,
        trajectory.measures,
        trajectory.error,
    )
