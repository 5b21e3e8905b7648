"""What to say when this process may have no more file descriptors."""

from __future__ import annotations

import errno
import resource

from mlgo_gym.errors import MlgoError


def refuse_at_descriptor_limit(error: BaseException) -> None:
    """Raise an error that says how to go on, if an error says that the limit of file descriptors is reached.

    Raises:
        MlgoError: it is.
    """
    if not isinstance(error, OSError) or error.errno not in (errno.EMFILE, errno.ENFILE):
        return
    if error.errno == errno.ENFILE:
        raise MlgoError("a compile needs about ten file descriptors, and this machine has none left") from error
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    raise MlgoError(
        f"a compile needs about ten file descriptors, and this process has all the {soft} that it may have: raise the "
        f"limit first, with `ulimit -n {hard}` in the shell or "
        f"resource.setrlimit(resource.RLIMIT_NOFILE, ({hard}, {hard})), or have fewer environments open at once"
    ) from error
