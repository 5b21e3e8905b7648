"""A corpus of one builtin module, with programs that a test describes."""

import hashlib
import shutil
from pathlib import Path

from mlgo_gym import Corpus, open_corpus
from mlgo_gym.corpus.folder import write_description

MODULE = "c/vfs"
RIGHT = hashlib.sha256(b"0\n").hexdigest()
WRONG = "0" * 64

ENTRY = """
[programs.{name}]
modules = ["c/*"]
driver = "selftest.c"
options = ["-DSELFTEST=vfs_selftest"]
runs = [{{arguments = ["2"], sha256 = "{sha256}"}}]
"""


def small_corpus(folder: Path, programs: str) -> Corpus:
    """Return a corpus in a new folder, with this content of `programs.toml`."""
    source = open_corpus("builtin").path
    assert source is not None
    (folder / "c").mkdir(parents=True)
    for suffix in (".bc", ".cmd", ".json"):
        shutil.copyfile(source / f"{MODULE}{suffix}", folder / f"{MODULE}{suffix}")
    shutil.copyfile(source / "selftest.c", folder / "selftest.c")
    write_description(folder, [MODULE])
    (folder / "programs.toml").write_text(programs)
    return open_corpus(folder)
