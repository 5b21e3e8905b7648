"""Process that reads inputs: `python -m tests.fuzz.worker FORMAT ENGINE INPUTS SEED FOLDER`, started by `tests.fuzz`.

It writes each input to a file in memory before it reads it, which identifies an input that ends the process.
"""

from __future__ import annotations

import contextlib
import json
import mmap
import os
import random
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

INPUT = "current"
REPORT = "report.json"
FINDS = "finds"
CORPUS = "corpus"
SEEDS = "seeds"
BAD_SEED = 3
"""Exit status if the reader refuses a seed."""

_NUMBER = 8
_SPACE = 1 << 20
_SAVE_EVERY = 5.0


def main() -> None:
    """Read inputs; the engine is `atheris` or `mutations`."""
    name, engine, inputs, seed, folder = sys.argv[1:]
    warnings.simplefilter("ignore")
    if engine == "atheris":
        import atheris

        with atheris.instrument_imports(include=["mlgo_gym", "mlgo_clang", "zipfile", "shlex"]):
            from tests.fuzz.formats import FORMATS
    else:
        from tests.fuzz.formats import FORMATS
    from tests.fuzz.judge import Judge

    tested = FORMATS[name]
    place = Path(folder)
    seeds = tested.seeds()
    judge = Judge(tested)
    target = _Target(judge, place, int(inputs))
    for data in seeds:
        target.check_seed(data)
    judge.start()
    if engine == "atheris":
        _with_atheris(target, tested, seeds, int(seed), place)
        return
    from tests.fuzz.mutations import mutate

    chance = random.Random(int(seed))
    while True:
        target(mutate(seeds, tested.tokens, tested.longest, chance))


def _with_atheris(target: Callable[[bytes], None], tested: Any, seeds: list[bytes], seed: int, place: Path) -> None:
    import atheris

    (place / CORPUS).mkdir(exist_ok=True)
    (place / SEEDS).mkdir(exist_ok=True)
    for number, data in enumerate(seeds):
        (place / SEEDS / str(number)).write_bytes(data)
    words = ["fuzz", f"-seed={seed % (1 << 31)}", f"-max_len={tested.longest}", "-verbosity=0", "-rss_limit_mb=0"]
    words += [f"-artifact_prefix={place}/", "-len_control=0", "-timeout=600"]
    if tested.tokens:
        lines = ('"' + "".join(f"\\x{byte:02x}" for byte in token) + '"\n' for token in tested.tokens)
        (place / "tokens").write_text("".join(lines))
        words.append(f"-dict={place / 'tokens'}")
    atheris.Setup([*words, str(place / CORPUS), str(place / SEEDS)], target)
    atheris.Fuzz()


class _Target:
    """Reads the inputs of an engine, and exits after the last."""

    def __init__(self, judge: Any, place: Path, inputs: int) -> None:
        self._judge = judge
        self._place = place
        self._inputs = inputs
        self._count = 0
        self._parent = os.getppid()
        self._findings: dict[str, str] = {}
        self._started = self._saved = time.monotonic()
        with (place / INPUT).open("w+b") as file:
            file.truncate(_SPACE)
            self._current = mmap.mmap(file.fileno(), _SPACE)
        (place / FINDS).mkdir(exist_ok=True)

    def check_seed(self, data: bytes) -> None:
        """Read a seed, which must not be refused."""
        found = self._judge(data)
        if found is not None or self._judge.refused:
            print(f"a seed was refused: {found}", file=sys.stderr)
            sys.exit(BAD_SEED)

    def __call__(self, data: bytes) -> None:
        size = min(len(data), _SPACE - 2 * _NUMBER)
        head = self._count.to_bytes(_NUMBER, "little") + size.to_bytes(_NUMBER, "little")
        self._current[: 2 * _NUMBER + size] = head + data[:size]
        found = self._judge(data)
        self._count += 1
        if found is not None:
            self._keep(found, data)
        if self._count >= self._inputs:
            self._save()
            os._exit(0)
        if self._count % 64 == 0 and time.monotonic() - self._saved > _SAVE_EVERY:
            self._save()
            if os.getppid() != self._parent:  # the parent has exited
                os._exit(1)

    def _keep(self, found: Any, data: bytes) -> None:
        path = self._place / FINDS / found.key
        if found.key not in self._findings:
            print(f"  {found.message}", file=sys.stderr, flush=True)
        self._findings[found.key] = found.message
        with contextlib.suppress(FileNotFoundError):
            if path.stat().st_size <= len(data):
                return
        path.write_bytes(data)

    def _save(self) -> None:
        self._saved = time.monotonic()
        report = {
            "inputs": self._count,
            "seconds": round(self._saved - self._started, 1),
            "cpu_seconds": round(time.process_time(), 1),
            "refused": self._judge.refused,
            "ended": self._judge.ended,
            "slowest": round(self._judge.slowest, 4),
            "grown_mb": round(self._judge.grown_kib / 1000, 1),
            "findings": self._findings,
        }
        temporary = self._place / f".{REPORT}"
        temporary.write_text(json.dumps(report, indent=1) + "\n")
        temporary.replace(self._place / REPORT)


if __name__ == "__main__":
    main()
