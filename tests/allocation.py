"""The costs of register allocation, by an independent reader of clang's optimisation record."""

from typing import Any

import yaml


class _Loader(yaml.SafeLoader):
    """Knows the tag of a remark, `!Missed`."""


def _remark(loader: yaml.SafeLoader, node: yaml.MappingNode) -> dict[Any, Any]:
    return loader.construct_mapping(node, deep=True)


_Loader.add_constructor("!Missed", _remark)


def arguments(record: bytes) -> dict[str, dict[str, str]]:
    """Return the arguments of the remark that sums up each function, by the function's name."""
    found = {}
    for remark in yaml.load_all(record, _Loader):
        if remark["Name"] == "SpillReloadCopies":
            found[remark["Function"]] = {name: text for entry in remark["Args"] for name, text in entry.items()}
    return found


def costs(record: bytes) -> dict[str, float]:
    """Return the weighted cost of each function that has any."""
    prices = {
        "TotalSpillsCost": 1.0,
        "TotalFoldedSpillsCost": 1.0,
        "TotalReloadsCost": 4.0,
        "TotalFoldedReloadsCost": 4.0,
        "TotalCopiesCost": 0.2,
    }
    return {
        function: sum(price * float(values.get(name, 0)) for name, price in prices.items())
        for function, values in arguments(record).items()
    }
