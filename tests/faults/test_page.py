"""docs/faults.md is what the catalogue says, and everything in the catalogue is tested."""

from __future__ import annotations

from tests.faults import test_host_faults
from tests.faults.catalogue import FAULTS, TROUBLES
from tests.faults.page import PAGE, render


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf-8") == render(), "run `python -m tests.faults.page`"


def test_every_fault_has_a_name_of_its_own() -> None:
    assert len({fault.name for fault in FAULTS}) == len(FAULTS)


def test_every_trouble_is_tested() -> None:
    for trouble in TROUBLES:
        for name in trouble.tests:
            assert callable(getattr(test_host_faults, name))
