"""Where an episode is, as a value that can be saved, compared and returned to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from mlgo_gym.errors import MlgoError


@dataclass(frozen=True, slots=True)
class EpisodeState:
    """What leads to a decision: clang is deterministic, so the same actions lead there again.

    States are equal if they came about by the same actions. A state can be the key of a dictionary.

    Attributes:
        module: the module's name.
        digest: the SHA-256 of its bitcode, in hexadecimal.
        function: the function, where an episode is one function's.
        actions: the actions that were taken, each an int, or a float where actions are continuous; where an illegal one
            was replaced, what took its place.
        clang: the compiler's version.
    """

    module: str
    digest: str
    function: str | None
    actions: tuple[int | float, ...]
    clang: str

    def to_json(self) -> dict[str, Any]:
        """Return JSON-able data."""
        return {**asdict(self), "actions": list(self.actions)}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> EpisodeState:
        """Build a state from the data of `to_json()`.

        Raises:
            MlgoError: the data are of another form.
        """
        try:
            return cls(**{**value, "actions": tuple(value["actions"])})
        except (TypeError, KeyError) as error:
            raise MlgoError(f"the data of a state were wanted, as state().to_json() has them: {error}") from error

    def check(self, digest: str, clang: str) -> None:
        """Check that the same actions lead to the same place here.

        Args:
            digest: the digest of the module's bitcode now.
            clang: the version of the compiler now.

        Raises:
            MlgoError: module or compiler is another.
        """
        if (self.digest, self.clang) != (digest, clang):
            raise MlgoError(
                f"the state is one of module {self.module!r} with digest {self.digest[:12]} on clang {self.clang}, and "
                f"here it has {digest[:12]}, and clang is {clang}: use the same corpus and compiler"
            )
