"""One corpus from the corpora in the folders of a folder, without copying. As LLVM's `combine_training_corpus` does."""

from __future__ import annotations

from pathlib import Path

from mlgo_gym.corpus.description import DESCRIPTION_FILE, Description, read_description, write_description
from mlgo_gym.errors import CorpusError


def combine_corpora(root: Path) -> list[str]:
    """Describe all corpora one level below a folder as one corpus, and return the names of its modules.

    Module names gain `SUBFOLDER/`; folders are taken in the order of their names; what is no corpus is left alone.

    Args:
        root: the folder, which becomes a corpus.

    Raises:
        CorpusError: there is no corpus in it, or two differ in more than their modules.
    """
    if not root.is_dir():
        raise CorpusError(f"{root}: a folder of corpora was wanted, and it is none; check --root_dir")
    parts = [(path.parent.name, read_description(path.parent)) for path in sorted(root.glob(f"*/{DESCRIPTION_FILE}"))]
    if not parts:
        raise CorpusError(f"{root}: folders with {DESCRIPTION_FILE} were wanted, and there are none; check --root_dir")
    first_folder, first = parts[0]
    for folder, part in parts[1:]:
        different = [key for key, value in _settings(part).items() if value != _settings(first).get(key)]
        different += [key for key in _settings(first) if key not in _settings(part)]
        if different:
            raise CorpusError(
                f"{root}: {first_folder} and {folder} differ in {', '.join(different)}, so one description cannot hold "
                "for both; make them alike, or open them joined with a comma instead"
            )
    modules = [f"{folder}/{name}" for folder, part in parts for name in part.modules]
    write_description(
        root,
        modules,
        has_thinlto=first.has_thinlto,
        global_command_override=first.global_command_override,
        **first.extra,
    )
    return modules


def _settings(description: Description) -> dict[str, object]:
    return {
        "has_thinlto": description.has_thinlto,
        "global_command_override": description.global_command_override,
        **description.extra,
    }
