"""Without free file descriptors there is an error with a remedy, and no descriptor is lost."""

from __future__ import annotations

import errno
import os
import resource

import pytest

from mlgo_gym.corpus.commands.compilation import Compilation
from mlgo_gym.errors import MlgoError
from mlgo_gym.llvm.advisors import INLINING
from mlgo_gym.session.process.limits import raise_if_descriptor_limit
from mlgo_gym.session.session import Session

pytestmark = pytest.mark.usefixtures("nothing_is_left")


def test_a_compile_without_free_descriptors_names_the_limit_and_leaves_nothing(compile_calls: Compilation) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    # Above the highest descriptor that is duplicated to a number.
    spare = [os.open(os.devnull, os.O_RDONLY) for _ in range(80)]
    started = []
    try:
        for room in range(20):
            limit = spare[-1] + 1 + room
            resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
            try:
                Session(compile_calls.command, (INLINING,)).close()
                started.append(True)
            except MlgoError as error:
                message = str(error)
                started.append(f"none of the {limit} that" not in message or "ulimit -n" not in message)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        for descriptor in spare:
            os.close(descriptor)
    assert started == sorted(started)
    assert set(started) == {False, True}


def test_a_machine_without_free_descriptors_has_its_own_error() -> None:
    with pytest.raises(MlgoError, match="got none on this machine"):
        raise_if_descriptor_limit(OSError(errno.ENFILE, "made up"))
    raise_if_descriptor_limit(OSError(errno.EACCES, "made up"))
    raise_if_descriptor_limit(ValueError())
