"""Results on disk: a header, and one line per finished episode, written as it finishes."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, replace
from pathlib import Path

from mlgo_gym.errors import MlgoError
from mlgo_gym.evaluation.configuration import Configuration
from mlgo_gym.evaluation.episode_result import EpisodeResult
from mlgo_gym.evaluation.linking import LinkedSize
from mlgo_gym.evaluation.running import ProgramResult
from mlgo_gym.storage.cache import write_atomically
from mlgo_gym.storage.json_lines import JsonLines, read_json_lines
from mlgo_gym.storage.json_text import parse_json
from mlgo_gym.storage.untrusted_file import read_untrusted

HEADER = "meta.json"
EPISODES = "episodes.jsonl"
LINKS = "links.json"
PROGRAMS = "programs.json"


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


def write_configuration(folder: Path, configuration: Configuration) -> None:
    """Write the header of a folder of results."""
    write_atomically(folder / HEADER, (json.dumps(configuration.to_json(), indent=2) + "\n").encode())


def read_episodes(folder: Path) -> list[EpisodeResult]:
    """Return the last result of each policy and module, in the order in which they finished.

    An unfinished last line, which a killed process may leave, is ignored.

    Raises:
        MlgoError: A line has another form.
    """
    path = folder / EPISODES
    found: dict[tuple[str, str], EpisodeResult] = {}
    for number, value in read_json_lines(path):
        try:
            result = EpisodeResult.from_json(value)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise MlgoError(
                f"{path}, line {number}: expected a result, got another form ({error!r}); delete it"
            ) from error
        found.pop((result.policy, result.module), None)
        found[result.policy, result.module] = result
    return list(found.values())


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
        write_configuration(path, merged)
        return merged

    def append(self, result: EpisodeResult) -> None:
        """Write a result; it is on disk on return."""
        self._lines.append(result.to_json())

    def write_links(self, rows: Iterable[LinkedSize]) -> None:
        """Write `links.json`; an existing file is replaced."""
        self._write_rows(LINKS, rows)

    def write_programs(self, rows: Iterable[ProgramResult]) -> None:
        """Write `programs.json`; an existing file is replaced."""
        self._write_rows(PROGRAMS, rows)

    def _write_rows(self, name: str, rows: Iterable[LinkedSize | ProgramResult]) -> None:
        write_atomically(self._path / name, (json.dumps([asdict(row) for row in rows], indent=1) + "\n").encode())

    def close(self) -> None:
        """Release the folder. Idempotent."""
        self._lines.close()
