"""A process that may have no more file descriptors is told how to get more, and loses none."""

from __future__ import annotations

import errno
import os
import resource
from collections.abc import Callable, Iterator

import pytest

from mlgo_gym.corpus.compilation import Compilation
from mlgo_gym.errors import MlgoError
from mlgo_gym.llvm.advisors import INLINING
from mlgo_gym.session.descriptor_limit import refuse_at_descriptor_limit
from mlgo_gym.session.session import Session

pytestmark = pytest.mark.usefixtures("nothing_is_left")

MANY = 80
"""More than any number that a descriptor is wanted at."""


@pytest.fixture
def leave_room() -> Iterator[Callable[[int], int]]:
    """Return a function that lets this process open so many more files, and returns its limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    spare = [os.open(os.devnull, os.O_RDONLY) for _ in range(MANY)]

    def limit(room: int) -> int:
        resource.setrlimit(resource.RLIMIT_NOFILE, (spare[-1] + 1 + room, hard))
        return spare[-1] + 1 + room

    yield limit
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    for descriptor in spare:
        os.close(descriptor)


def test_a_compile_without_free_descriptors_says_what_the_limit_is_and_leaves_nothing(
    compile_calls: Compilation, leave_room: Callable[[int], int]
) -> None:
    started = False
    for room in range(20):
        limit = leave_room(room)
        try:
            session = Session(compile_calls.command, (INLINING,))
        except MlgoError as error:
            assert not started
            assert f"all the {limit} that it may have" in str(error)  # noqa: PT017 - the last ones do not raise
            assert "ulimit -n" in str(error)  # noqa: PT017
        else:
            started = True
            session.close()
    assert started


def test_a_machine_without_free_descriptors_is_told_apart() -> None:
    with pytest.raises(MlgoError, match="this machine has none left"):
        refuse_at_descriptor_limit(OSError(errno.ENFILE, "made up"))
    refuse_at_descriptor_limit(OSError(errno.EACCES, "made up"))
    refuse_at_descriptor_limit(ValueError())
