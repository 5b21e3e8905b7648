"""A policy that prompts a language model with the code at each decision, and parses its answer.

Some clangs run at the same time. The prompts of their decisions are one batch, and each answer has a time limit. Equal
prompts are answered once: a file keeps all answers. Clang's own choice is the fallback for late, failed and unclear
answers. The client is a stub that answers by a rule; a client of your own is a function from a prompt to an answer.

pip install '.[cli]'   # in a clone of mlgo-gym
python prompt_policy.py [CORPUS] [MODULES] [CACHE]
"""

import hashlib
import json
import re
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import Future, wait
from pathlib import Path
from threading import Thread
from typing import Any

import gymnasium as gym
import numpy as np

import mlgo_gym  # noqa: F401 - registers the environments
from mlgo_gym.compiler.decision_code import DecisionIR

CLANGS, SECONDS, CHARACTERS = 4, 20.0, 12_000

PROMPT = """Code should be small. Answer INLINE if inlining this call makes the object smaller; else KEEP.
Caller @{caller}, callee @{callee}, the call: {call}

{code}
Answer with one word: INLINE or KEEP.
"""


def stub(prompt: str) -> str:
    """Answer as a model might: inline callees of one basic block with at most six instructions."""
    callee = prompt.partition("define ")[2].partition("\n}\n")[0]
    lines = callee.splitlines()[1:]
    return "INLINE, it is small." if len(lines) <= 6 and not any(line.endswith(":") for line in lines) else "KEEP"


class PromptPolicy:
    """Chooses actions by a client; counts answers, and what replaced them, in `sources`.

    Args:
        client: Returns the answer to a prompt; it may raise. Several threads call it.
        cache: File of answers by the digest of their prompt.
        seconds: Time limit of an answer.
    """

    def __init__(self, client: Callable[[str], str], cache: Path, seconds: float = SECONDS) -> None:
        self._client, self._cache, self._seconds = client, cache, seconds
        self._answers: dict[str, str] = {}
        if cache.exists():
            self._answers = dict(json.loads(line) for line in cache.read_text().splitlines())
        self.sources: Counter[str] = Counter()

    def act(self, codes: Sequence[DecisionIR], defaults: Sequence[int]) -> list[int]:
        """Return an action for each decision."""
        prompts = [
            PROMPT.format(caller=code.caller, callee=code.callee, call=code.call, code=code.text) for code in codes
        ]
        keys = [hashlib.sha256(prompt.encode(errors="surrogateescape")).hexdigest() for prompt in prompts]
        new = {
            key: prompt
            for key, prompt, code in zip(keys, prompts, codes, strict=True)
            if code.callee and len(prompt) <= CHARACTERS and key not in self._answers
        }
        requests = {key: self._request(prompt) for key, prompt in new.items()}
        wait(requests.values(), self._seconds)
        for key, request in requests.items():
            if not request.done() or request.exception() is not None:
                self.sources["failed or late"] += 1
                continue
            self._answers[key] = request.result()
            with self._cache.open("a") as file:
                file.write(json.dumps([key, self._answers[key]]) + "\n")
        return [self._read(self._answers.get(key), default) for key, default in zip(keys, defaults, strict=True)]

    def _request(self, prompt: str) -> Future[str]:
        """Start a request; its thread does not keep the program from ending."""
        request: Future[str] = Future()

        def run() -> None:
            try:
                request.set_result(self._client(prompt))
            except Exception as error:  # noqa: BLE001 - whatever a client raises, clang decides
                request.set_exception(error)

        Thread(target=run, daemon=True).start()
        return request

    def _read(self, answer: str | None, default: int) -> int:
        words = [] if answer is None else re.findall(r"\b(INLINE|KEEP)\b", answer)
        self.sources["answer" if words else "clang"] += 1
        return default if not words else int(words[0] == "INLINE")


def main(corpus: str = "builtin", modules: str = "8", cache: str = "answers.jsonl") -> None:
    """Print the change of size of some modules, and where the actions came from."""
    envs: Any = gym.make_vec("mlgo/Inline-v0", num_envs=CLANGS, autoreset_mode="SameStep", corpus=corpus, ir=True)
    policy = PromptPolicy(stub, Path(cache))
    sizes: dict[str, tuple[float, float]] = {}
    _, info = envs.reset(seed=0)
    while len(sizes) < int(modules):
        actions = policy.act(envs.call("ir"), info["default_action"].tolist())
        *_, info = envs.step(np.array(actions))
        for number in np.flatnonzero(info.get("_final_info", [])):
            module, *both = (info["final_info"][key][number] for key in ("module", "text", "baseline_text"))
            sizes[str(module)] = float(both[0]), float(both[1])
    envs.close()
    size, baseline = (sum(sizes[name][side] for name in sizes) for side in (0, 1))
    print(
        f"{len(sizes)} modules: {100 * (size / baseline - 1):+.2f} % of clang's bytes; actions: {dict(policy.sources)}"
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
