"""Without free file descriptors there is an error with a remedy, and no descriptor is lost."""

from __future__ import annotations

import errno
import os
import resource
from collections.abc import Callable, Iterator

import pytest

from mlgo_gym.corpus.commands.compilation import Compilation
from mlgo_gym.errors import MlgoError
from mlgo_gym.llvm.advisors import INLINING
from mlgo_gym.session.process.limits import raise_if_descriptor_limit
from mlgo_gym.session.session import Session

pytestmark = pytest.mark.usefixtures("nothing_is_left")

MANY = 80
"""More than the highest descriptor that is duplicated to a number."""


@pytest.fixture
def leave_free() -> Iterator[Callable[[int], int]]:
    """Return a function that limits this process to N more descriptors, and returns the limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    spare = [os.open(os.devnull, os.O_RDONLY) for _ in range(MANY)]

    def limit(free: int) -> int:
        resource.setrlimit(resource.RLIMIT_NOFILE, (spare[-1] + 1 + free, hard))
        return spare[-1] + 1 + free

    yield limit
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    for descriptor in spare:
        os.close(descriptor)


def test_a_compile_without_free_descriptors_names_the_limit_and_leaves_nothing(
    compile_calls: Compilation, leave_free: Callable[[int], int]
) -> None:
    started = False
    for room in range(20):
        limit = leave_free(room)
        try:
            session = Session(compile_calls.command, (INLINING,))
        except MlgoError as error:
            assert not started
            assert f"none of the {limit} that this process may have" in str(error)  # noqa: PT017 - the last ones do not raise
            assert "ulimit -n" in str(error)  # noqa: PT017
        else:
            started = True
            session.close()
    assert started


def test_a_machine_without_free_descriptors_has_its_own_error() -> None:
    with pytest.raises(MlgoError, match="got none on this machine"):
        raise_if_descriptor_limit(OSError(errno.ENFILE, "made up"))
    raise_if_descriptor_limit(OSError(errno.EACCES, "made up"))
    raise_if_descriptor_limit(ValueError())
