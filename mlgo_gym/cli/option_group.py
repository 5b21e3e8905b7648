"""Options that several commands have in common: stated once, as the fields of a dataclass."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import MISSING, fields
from typing import Any, TypeVar, get_type_hints

Command = TypeVar("Command", bound=Callable[..., None])


def with_options(argument: str, group: type[Any]) -> Callable[[Command], Command]:
    """Give a command the fields of a dataclass as options, which reach it as one argument.

    Args:
        argument: the name of the command's keyword argument, an instance of the group.
        group: a dataclass whose fields are annotated as Typer's options are, each with a default.
    """

    def give(command: Command) -> Command:
        hints = get_type_hints(group, include_extras=True)
        options = [
            inspect.Parameter(
                field.name, inspect.Parameter.KEYWORD_ONLY, default=field.default, annotation=hints[field.name]
            )
            for field in fields(group)
            if field.default is not MISSING
        ]
        # Not get_type_hints, which before Python 3.11 makes another annotation of one whose default is None.
        own = inspect.signature(command, eval_str=True)
        parameters = []
        for name, parameter in own.parameters.items():
            parameters += options if name == argument else [parameter]

        @functools.wraps(command)
        def run(*arguments: Any, **given: Any) -> None:
            chosen = {option.name: given.pop(option.name) for option in options}
            command(*arguments, **{argument: group(**chosen)}, **given)

        # Typer reads these two, and not what the wrapped function has.
        run.__signature__ = own.replace(parameters=parameters)  # type: ignore[attr-defined] # functions take attributes
        run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        del run.__wrapped__
        return run  # type: ignore[return-value] # it is called as the command line has it

    return give
