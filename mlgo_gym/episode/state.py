"""The state of an episode as a value."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from mlgo_gym.errors import MlgoError
from mlgo_gym.storage.json_files import check_fields


@dataclass(frozen=True, slots=True)
class EpisodeState:
    """The actions that lead to a decision: clang is deterministic, so the same actions lead there again.

    States of equal actions are equal and hashable.

    Attributes:
        module: Name of the module.
        digest: SHA-256 of its bitcode, in hexadecimal.
        function: Function with `scope="function"`, else None.
        actions: Actions in order, each an int, or a float where actions are continuous. Clang's own choice replaces an
            illegal action.
        clang: Version of the compiler.
        environment: Name of the environment's class.
        flags: Digest of the flags of the compile.
    """

    module: str
    digest: str
    function: str | None
    actions: tuple[int | float, ...]
    clang: str
    environment: str
    flags: str

    def to_json(self) -> dict[str, Any]:
        """Return JSON-able data."""
        return {**asdict(self), "actions": list(self.actions)}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "EpisodeState":
        """Build a state from the data of `to_json()`; raise `MlgoError` for other data."""
        try:
            return cls(**{**check_fields(cls, value), "actions": tuple(value["actions"])})
        except (TypeError, KeyError, ValueError) as error:
            message = f"expected the data of state().to_json(), got {value!r:.200}: {error}; save the state again"
            raise MlgoError(message) from error

    def check(self, digest: str, clang: str, environment: str, flags: str) -> None:
        """Raise `MlgoError` unless an environment has the state's bitcode, compiler, class and flags, by digest."""
        if self.environment != environment:
            raise MlgoError(f"expected a state of {environment}, got one of {self.environment}; use its environment")
        if (self.digest, self.clang) != (digest, clang):
            raise MlgoError(
                f"expected module {self.module!r} with digest {self.digest[:12]} and clang {self.clang}, got "
                f"{digest[:12]} and {clang}; use the corpus and the compiler of the state"
            )
        if self.flags != flags:
            raise MlgoError(f"expected the flags of the state for {self.module!r}, got others; use its arguments")
