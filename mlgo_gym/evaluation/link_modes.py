"""Modes of links that are repeated: as recorded, without unused sections, with folded functions, with LTO."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from mlgo_gym.corpus.recording.links import Link
from mlgo_gym.errors import MlgoError

SECTIONS = ("-ffunction-sections", "-fdata-sections")
"""Flags of compiles in all modes but `recorded`: linkers drop and fold functions with sections of their own."""

COMPILE, LINK, BOTH = "compile", "link", "both"
"""Places where a policy decides with link time optimisation: before the link, in the link, or in both."""


@dataclass(frozen=True, slots=True)
class LinkMode:
    """How recorded links are repeated.

    Attributes:
        name: Name in options and tables.
        arguments: Driver arguments to add.
        lto: `thin` or `full` for link time optimisation; None for that of the recorded link.
    """

    name: str
    arguments: tuple[str, ...] = ()
    lto: str | None = None

    def lto_of(self, link: Link) -> str | None:
        """Return the kind of link time optimisation of a link, or None."""
        return self.lto if self.arguments else link.lto

    def apply(self, link: Link, plugin: Path | None = None) -> Link:
        """Return a link in this mode, with a pass plugin in the linker if one is given."""
        loaded = () if plugin is None else ("-fuse-ld=lld", f"-Wl,--load-pass-plugin={plugin.absolute()}")
        return replace(link, arguments=(*link.arguments, *self.arguments, *loaded), lto=self.lto_of(link))


RECORDED = LinkMode("recorded")
_GC = "-Wl,--gc-sections"

LINK_MODES = {
    mode.name: mode
    for mode in (
        RECORDED,
        LinkMode("gc", (_GC,)),
        LinkMode("icf", ("-fuse-ld=lld", _GC, "-Wl,--icf=all")),
        LinkMode("thin", ("-flto=thin", "-fuse-ld=lld", _GC), "thin"),
        LinkMode("full", ("-flto=full", "-fuse-ld=lld", _GC), "full"),
    )
}


def link_modes(names: Iterable[str]) -> tuple[LinkMode, ...]:
    """Return the modes of some names, each once.

    Raises:
        MlgoError: There is no such mode.
    """
    chosen = tuple(dict.fromkeys(names)) or (RECORDED.name,)
    for name in chosen:
        if name not in LINK_MODES:
            raise MlgoError(f"expected link modes of {', '.join(LINK_MODES)}, got {name!r}; correct --link-as")
    return tuple(LINK_MODES[name] for name in chosen)


def places(mode: LinkMode, links: Sequence[Link], *, has_policy: bool, has_plugin: bool) -> tuple[str, ...]:
    """Return the places where a policy decides: `COMPILE` alone without link time optimisation or plugin."""
    with_lto = any(mode.lto_of(link) is not None for link in links)
    return (COMPILE, LINK, BOTH) if with_lto and has_policy and has_plugin else (COMPILE,)
