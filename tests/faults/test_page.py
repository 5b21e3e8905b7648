"""docs/explanation/faults.md agrees with the catalogue."""

from __future__ import annotations

from tests.faults.catalogue import FAULTS
from tests.faults.page import PAGE, render


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf-8") == render(), "run `python -m tests.faults.page`"


def test_every_fault_has_a_unique_name() -> None:
    assert len({fault.name for fault in FAULTS}) == len(FAULTS)
