"""Process that fuzzes one format: `python -m tests.fuzz.worker FORMAT [libFuzzer's options and folders …]`.

It copies each input to a file before it reads it: libFuzzer saves no input that ends the process by `os._exit()` or
SIGKILL.
"""

import os
import sys
import tempfile
import warnings
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["mlgo_gym", "mlgo_clang", "zipfile", "shlex"]):
    from tests.fuzz.formats import FORMATS, INPUT


def main() -> None:
    """Read inputs until the first finding."""
    warnings.simplefilter("ignore")
    fuzzed = FORMATS[sys.argv.pop(1)]
    current, parent = Path(tempfile.gettempdir(), INPUT), os.getppid()

    def read(data: bytes) -> None:
        current.write_bytes(data)
        fuzzed.refuses(data)
        if os.getppid() != parent:
            os._exit(1)

    atheris.Setup(sys.argv, read)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
