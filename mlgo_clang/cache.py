"""Where files are kept between compiles; the same folder as `mlgo_gym.storage.cache`, found without its imports."""

from __future__ import annotations

import os


def cache_folder() -> str:
    """Return the folder under which everything is cached: `$MLGO_CACHE`, or `mlgo-gym` in the user's cache folder."""
    chosen = os.environ.get("MLGO_CACHE")
    if chosen:
        return os.path.expanduser(chosen)
    parent = os.environ.get("XDG_CACHE_HOME", "").strip()
    return os.path.join(parent or os.path.expanduser("~/.cache"), "mlgo-gym")
