"""Results on disk: a header, and one line per finished episode, written through as it comes."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from types import TracebackType

from mlgo_gym.errors import MlgoError
from mlgo_gym.evaluation.configuration import Configuration
from mlgo_gym.evaluation.episode_result import EpisodeResult
from mlgo_gym.evaluation.linking import LinkedSize
from mlgo_gym.storage.cache import write_atomically
from mlgo_gym.storage.foreign_file import read_foreign
from mlgo_gym.storage.json_lines import JsonLines, read_json_lines
from mlgo_gym.storage.json_text import parse_json

HEADER = "meta.json"
EPISODES = "episodes.jsonl"
LINKS = "links.json"


def read_configuration(folder: Path) -> Configuration:
    """Return what the results in a folder depend on.

    Raises:
        MlgoError: there is no header, or one of another form.
    """
    path = folder / HEADER
    try:
        return Configuration.from_json(parse_json(read_foreign(path)))
    except FileNotFoundError:
        raise MlgoError(f"{folder} holds no results: there is no {HEADER}; give the --output of `evaluate`") from None
    except (OSError, KeyError, TypeError, ValueError) as error:
        raise MlgoError(
            f"{path} was to be the header of results, and is of another form ({error!r}); it may be of another version "
            "of mlgo-gym: choose another output"
        ) from error


def read_episodes(folder: Path) -> list[EpisodeResult]:
    """Return the results in a folder, the last one for each policy and module, in the order they came.

    A last line without an end is what a kill has left of a write: it is passed over.

    Raises:
        MlgoError: a line is of another form.
    """
    path = folder / EPISODES
    found: dict[tuple[str, str], EpisodeResult] = {}
    for number, value in read_json_lines(path):
        try:
            result = EpisodeResult.from_json(value)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise MlgoError(f"{path}, line {number}, was to be a result, and is not: {error!r}; delete it") from error
        found.pop((result.policy, result.module), None)
        found[result.policy, result.module] = result
    return list(found.values())


class ResultFolder:
    """A folder of results that is being added to, by this process alone.

    Args:
        path: the folder; made if need be.
        configuration: what the new results depend on; their policies are added to those of the header.

    Attributes:
        configuration: with the policies that were there, too.

    Raises:
        MlgoError: the folder has results of another configuration, another process adds to it, or it is damaged.
    """

    def __init__(self, path: Path, configuration: Configuration) -> None:
        self._path = path
        self._lines = JsonLines(path / EPISODES)
        try:
            self.configuration = self._check(path, configuration)
        except BaseException:
            self._lines.close()
            raise

    @property
    def episodes(self) -> list[EpisodeResult]:
        """The results that are there now, read anew: they are not held in memory.

        Raises:
            MlgoError: a line is of another form.
        """
        return read_episodes(self._path)

    @staticmethod
    def _check(path: Path, configuration: Configuration) -> Configuration:
        policies: Mapping[str, str] = configuration.policies
        if (path / HEADER).exists():
            there = read_configuration(path)
            differences = there.differences(configuration)
            if differences:
                listed = "".join(f"\n  {line}" for line in differences)
                raise MlgoError(
                    f"{path} holds results of another evaluation, and they cannot be mixed:{listed}\nchoose another "
                    "output, or delete that folder"
                )
            policies = {**there.policies, **policies}
        elif (path / EPISODES).stat().st_size:
            raise MlgoError(f"{path} has {EPISODES} and no {HEADER}: choose another output, or delete that folder")
        merged = replace(configuration, policies=policies)
        write_atomically(path / HEADER, (json.dumps(merged.to_json(), indent=2) + "\n").encode())
        return merged

    def append(self, result: EpisodeResult) -> None:
        """Write a result; when this returns it is on disk."""
        self._lines.append(result.to_json())

    def write_links(self, rows: Iterable[LinkedSize]) -> None:
        """Write what objects came to in linked files, in the place of what was there."""
        write_atomically(self._path / LINKS, (json.dumps([row.to_json() for row in rows], indent=1) + "\n").encode())

    def close(self) -> None:
        """Let others write. Idempotent."""
        self._lines.close()

    def __enter__(self) -> ResultFolder:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
