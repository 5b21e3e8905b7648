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
BAD_SEED = 3
"""Exit status if the reader refuses a seed."""

_SPACE = 1 << 20


def main() -> None:
    """Read inputs; the engine is `atheris` or `mutations`."""
    name, engine, inputs, seed, folder = sys.argv[1:]
    warnings.simplefilter("ignore")
    guided: Any = contextlib.nullcontext()
    if engine == "atheris":
        import atheris

        guided = atheris.instrument_imports(include=["mlgo_gym", "mlgo_clang", "zipfile", "shlex"])
    with guided:
        from tests.fuzz.formats import FORMATS
    from tests.fuzz.judge import Judge
    from tests.fuzz.mutations import mutate

    tested, place, chance = FORMATS[name], Path(folder), random.Random(int(seed))
    seeds, judge = tested.seeds(), Judge(tested)
    for data in seeds:
        finding = judge(data)
        if finding is not None or judge.refused:
            print(f"a seed was refused: {finding}", file=sys.stderr)
            sys.exit(BAD_SEED)
    judge.start()
    target = _target(judge, place, int(inputs))
    if engine == "atheris":
        _with_atheris(target, tested, seeds, int(seed), place)
    while True:
        target(mutate(seeds, tested.tokens, tested.longest, chance))


def _with_atheris(target: Callable[[bytes], None], tested: Any, seeds: list[bytes], seed: int, place: Path) -> None:
    import atheris

    for folder in ("corpus", "seeds"):
        (place / folder).mkdir(exist_ok=True)
    for number, data in enumerate(seeds):
        (place / "seeds" / str(number)).write_bytes(data)
    words = ["fuzz", f"-seed={seed % (1 << 31)}", f"-max_len={tested.longest}", "-verbosity=0", "-rss_limit_mb=0"]
    words += [f"-artifact_prefix={place}/", "-len_control=0", "-timeout=600"]
    if tested.tokens:
        lines = ('"' + "".join(f"\\x{byte:02x}" for byte in token) + '"\n' for token in tested.tokens)
        (place / "tokens").write_text("".join(lines))
        words.append(f"-dict={place / 'tokens'}")
    atheris.Setup([*words, str(place / "corpus"), str(place / "seeds")], target)
    atheris.Fuzz()


def _target(judge: Any, place: Path, inputs: int) -> Callable[[bytes], None]:
    """Return a function that reads an input, and ends the process after the last."""
    (place / FINDS).mkdir(exist_ok=True)
    with (place / INPUT).open("w+b") as file:
        file.truncate(_SPACE)
        current = mmap.mmap(file.fileno(), _SPACE)
    findings: dict[str, str] = {}
    count = 0

    def read(data: bytes) -> None:
        nonlocal count
        size = min(len(data), _SPACE - 16)
        current[: 16 + size] = count.to_bytes(8, "little") + size.to_bytes(8, "little") + data[:size]
        finding = judge(data)
        count += 1
        if finding is not None:
            path = place / FINDS / finding.key
            if not path.exists() or len(data) < path.stat().st_size:
                path.write_bytes(data)
            findings[finding.key] = finding.message
        if finding is not None or count == inputs:
            report = {"findings": findings, "refused": judge.refused, "ended": judge.ended, "slowest": judge.slowest}
            report |= {"cpu_seconds": time.process_time(), "grown_mb": judge.grown_kib / 1000}
            (place / REPORT).write_text(json.dumps(report))
        if count == inputs:
            os._exit(0)

    return read


if __name__ == "__main__":
    main()
