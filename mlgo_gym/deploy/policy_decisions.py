"""Prints the decisions of a policy with callee features about one module, for `mlgo-clang`.

`python -m mlgo_gym.deploy.policy_decisions CLANG POLICY COMMAND…` reads the bitcode from standard input and writes a 0
or 1 for each decision, in order, to standard output.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from mlgo_gym.deploy.program import SECONDS, exit_status_of, module_environment
from mlgo_gym.env import CompilerEnv
from mlgo_gym.policies import load_policy
from mlgo_gym.policies.session_policy import decision_info
from mlgo_gym.tasks.action import read_action


def policy_decisions(env: CompilerEnv, policy: str) -> list[int]:
    """Return the decisions of a policy about the only module of an environment, in the order of clang's requests.

    The module is compiled once, and nothing is measured.

    Raises:
        MlgoError: the policy does not fit, or the compile failed.
    """
    decider, task = load_policy(policy, env), env.task
    compilation = env.compilation(next(iter(env.corpus)))
    decisions: list[int] = []
    with compilation.session(task.advisors, contexts=True, callee_features=True) as session:
        while (decision := session.wait(SECONDS)) is not None:
            info = decision_info(task, decision, compilation.module.name, len(decisions))
            action = read_action(decider.act(task.observe(decision), info), task.action_space)
            decisions.append(int(action))
            session.advise(task.encode(decision, action) or task.default_advice(decision))
        session.finish(SECONDS)
    return decisions


def main(arguments: Sequence[str]) -> int:
    """Print the decisions; return the exit status."""
    clang, policy, *command = arguments

    def decide() -> None:
        with module_environment(sys.stdin.buffer.read(), command, clang, policy) as env:
            decisions = policy_decisions(env, policy)
        sys.stdout.write("".join(map(str, decisions)) + "\n")

    return exit_status_of(decide)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
