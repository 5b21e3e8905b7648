"""Counts the parts of a function in LLVM's textual IR."""

import re
from collections import Counter

_FUNCTION = re.compile(r"^define .*? @(?P<name>\w+)\(.*\{\n(?P<body>(?:.*\n)*?)\}", re.MULTILINE)
_INSTRUCTION = re.compile(
    r"^  (?P<result>%[\w.]+ = )?(?:(?:tail|musttail|notail) )?(?P<opcode>[a-z_]+)(?P<rest>.*)$", re.MULTILINE
)


def instructions(text: str, function: str) -> list[tuple[str, bool, str]]:
    """Return the opcode of each instruction of a function, whether it has a result, and what follows the opcode."""
    bodies = {match["name"]: match["body"] for match in _FUNCTION.finditer(text)}
    found = _INSTRUCTION.finditer(bodies[function])
    return [(match["opcode"], match["result"] is not None, match["rest"]) for match in found]


def opcodes(text: str, function: str) -> Counter[str]:
    """Return how many instructions a function has of each opcode."""
    return Counter(opcode for opcode, _, _ in instructions(text, function))


def predicates(text: str, function: str) -> Counter[str]:
    """Return how many comparisons a function has by each predicate, such as `icmp slt`."""
    return Counter(
        f"{opcode} {rest.split()[0]}" for opcode, _, rest in instructions(text, function) if opcode in ("icmp", "fcmp")
    )
