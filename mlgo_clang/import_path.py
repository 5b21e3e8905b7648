"""The import path of a driver, set before it imports anything: `PYTHONPATH` of a build is for the build's own programs.

A folder in it may have a `signal.py` or a `tempfile.py`, which would replace Python's in each compile.
"""

import os
import sys

_named = os.environ.get("PYTHONPATH", "").split(os.pathsep)
sys.path.sort(key=lambda path: path in _named)
