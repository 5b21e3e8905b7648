"""Results on disk: a header, facts about modules, and one line per finished episode, written as it finishes."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from mlgo_clang.files import read_untrusted
from mlgo_gym.cache import parse_json, write_atomically
from mlgo_gym.errors import MlgoError
from mlgo_gym.evaluation.configuration import Configuration, ModuleFacts
from mlgo_gym.evaluation.record import DONE, EpisodeRecord
from mlgo_gym.evaluation.result import EvaluationResult
from mlgo_gym.storage.json_files import JsonLines, read_json_lines

HEADER = "meta.json"
MODULES = "modules.jsonl"
EPISODES = "episodes.jsonl"
LINKS = "links.json"
PROGRAMS = "programs.json"


def load_result(folder: str | Path) -> EvaluationResult:
    """Return the results in the output folder of an evaluation, finished or not.

    Raises:
        MlgoError: The folder has no results, or they are damaged.
    """
    path = Path(folder)
    result = EvaluationResult(read_configuration(path), tuple(read_episodes(path)), read_modules(path))
    for episode in result.episodes:
        missing = [name for name in result.metrics if name not in episode.metrics]
        if missing and episode.status == DONE:
            raise MlgoError(
                f"{path}: expected the {' and '.join(missing)} of {episode.policy} on {episode.module}, got none; "
                "evaluate into another output"
            )
    return result


def load_results(paths: Sequence[Path]) -> dict[str, EvaluationResult]:
    """Return the results in several folders by name: the last parts of each path that distinguish it, mostly one.

    Raises:
        MlgoError: A folder is named twice, has no results, or they are damaged.
    """
    resolved = [path.resolve() for path in paths]
    for path, full in zip(paths, resolved, strict=True):
        if resolved.count(full) > 1:
            raise MlgoError(f"expected each path once, got {str(path)!r} twice; name it once")
    length = 1
    while len({path.parts[-length:] for path in resolved}) < len(resolved):
        length += 1
    return {"/".join(path.parts[-length:]).lstrip("/"): load_result(path) for path in resolved}


def read_configuration(folder: Path) -> Configuration:
    """Return the configuration of the results in a folder.

    Raises:
        MlgoError: The folder has no header, or one of another form.
    """
    path = folder / HEADER
    try:
        return Configuration.from_json(parse_json(read_untrusted(path)))
    except FileNotFoundError:
        raise MlgoError(f"expected results in {folder}, got no {HEADER}; give the --output of `evaluate`") from None
    except (OSError, KeyError, TypeError, ValueError) as error:
        raise MlgoError(
            f"{path}: expected the header of results, got another form ({error!r}), perhaps of another version of "
            "mlgo-gym; choose another output"
        ) from error


def write_modules(folder: Path, modules: Iterable[ModuleFacts]) -> None:
    """Write facts about modules to `modules.jsonl`, one line each; an existing file is replaced."""
    lines = (json.dumps(asdict(module)) + "\n" for module in modules)
    write_atomically(folder / MODULES, "".join(lines).encode())


def read_modules(folder: Path) -> dict[str, ModuleFacts]:
    """Return the facts about modules by name; empty if the folder has no `modules.jsonl`.

    Raises:
        MlgoError: A line has another form.
    """
    path = folder / MODULES
    try:
        return {facts.module: facts for _, value in read_json_lines(path) for facts in [ModuleFacts.from_json(value)]}
    except (KeyError, TypeError, ValueError) as error:
        raise MlgoError(
            f"{path}: expected facts about modules, got another form ({error!r}); evaluate again"
        ) from error


def read_episodes(folder: Path) -> list[EpisodeRecord]:
    """Return the last record of each policy and module, in the order in which they finished.

    An unfinished last line, which a killed process may leave, is ignored.

    Raises:
        MlgoError: A line has another form.
    """
    path = folder / EPISODES
    records: dict[tuple[str, str], EpisodeRecord] = {}
    for number, value in read_json_lines(path):
        try:
            record = EpisodeRecord.from_json(value)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise MlgoError(
                f"{path}, line {number}: expected a result, got another form ({error!r}); delete it"
            ) from error
        records.pop((record.policy, record.module), None)
        records[record.policy, record.module] = record
    return list(records.values())


class ResultFolder:
    """A folder of results to which this process alone adds.

    Args:
        path: The folder; made if it does not exist.
        configuration: Configuration of the new results.

    Attributes:
        configuration: The configuration, with the policies that the folder already has.

    Raises:
        MlgoError: The folder has results of another configuration, is in use by another process, or is damaged.
    """

    def __init__(self, path: Path, configuration: Configuration) -> None:
        self._path = path
        self._lines = JsonLines(path / EPISODES)
        try:
            self.configuration = self._merge(path, configuration)
        except BaseException:
            self._lines.close()
            raise

    @staticmethod
    def _merge(path: Path, configuration: Configuration) -> Configuration:
        policies: Mapping[str, str] = configuration.policies
        if (path / HEADER).exists():
            recorded = read_configuration(path)
            differences = recorded.differences(configuration)
            if differences:
                listed = "".join(f"\n  {line}" for line in differences)
                raise MlgoError(
                    f"{path} has results of another configuration, which cannot be mixed:{listed}\nchoose another "
                    "output, or delete that folder"
                )
            policies = {**recorded.policies, **policies}
        elif (path / EPISODES).stat().st_size:
            raise MlgoError(f"{path} has {EPISODES} but no {HEADER}; choose another output, or delete that folder")
        merged = replace(configuration, policies=policies)
        write_atomically(path / HEADER, (json.dumps(merged.to_json(), indent=2) + "\n").encode())
        return merged

    def append(self, record: EpisodeRecord) -> None:
        """Write a record; it is on disk on return."""
        self._lines.append(record.to_json())

    def write_rows(self, name: str, rows: Iterable[Any]) -> None:
        """Write dataclasses as `LINKS` or `PROGRAMS`; an existing file is replaced."""
        write_atomically(self._path / name, (json.dumps([asdict(row) for row in rows], indent=1) + "\n").encode())

    def close(self) -> None:
        """Release the folder. Idempotent."""
        self._lines.close()
