"""What a policy decides about one module, for `mlgo-clang`.

It is a program: `python -m mlgo_gym.deploy.policy_answers CLANG POLICY COMMAND…`, which reads the bitcode from its
standard input, and writes a 0 or 1 for each question, in order, to its standard output.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from mlgo_gym.deploy.program import exit_status_of
from mlgo_gym.deploy.recipe_search import SECONDS, cc1_flags
from mlgo_gym.evaluation.environment import make_environment
from mlgo_gym.policies import load_policy
from mlgo_gym.policies.answers import decision_info
from mlgo_gym.session.session import Session
from mlgo_gym.storage.leftovers import temporary_folder
from mlgo_gym.tasks.action import read_action


def policy_answers(bitcode: Path, flags: Sequence[str], clang: str, policy: str) -> list[int]:
    """Return the answers of a policy that sees calls, in the order of clang's questions.

    The module is compiled once, and nothing is measured.

    Args:
        bitcode: the module, before any optimisation.
        flags: its `-cc1` arguments.
        clang: the compiler.
        policy: an inlining policy as `load_policy()` takes it.

    Raises:
        MlgoError: the policy does not fit, or the compile failed.
    """
    arguments = {"corpus": str(bitcode), "clang": clang, "flags": list(flags), "timeout": SECONDS, "calls": True}
    env = make_environment("mlgo/Inline-v0", arguments)
    try:
        decider, task = load_policy(policy, env), env.task
        compilation = env.compilation(next(iter(env.corpus)))
        answers: list[int] = []
        with Session(
            compilation.command, task.advisors, contexts=True, foretell=True, confined=compilation.confined
        ) as session:
            while (decision := session.wait(SECONDS)) is not None:
                info = decision_info(task, decision, compilation.module.name, len(answers))
                action = read_action(decider.act(task.observe(decision), info), task.action_space)
                answers.append(int(action))
                session.advise(task.encode(decision, action) or task.default_advice(decision))
        return answers
    finally:
        env.close()


def main(arguments: Sequence[str]) -> int:
    """Write the answers; return the exit status."""
    clang, policy, *command = arguments
    data = sys.stdin.buffer.read()

    def answer() -> None:
        with temporary_folder() as temporary:
            bitcode = temporary / "module.bc"
            bitcode.write_bytes(data)
            answers = policy_answers(bitcode, cc1_flags(command), clang, policy)
        sys.stdout.write("".join(map(str, answers)) + "\n")

    return exit_status_of(answer)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
