"""Which extra brings a module that is missing, as the metadata of the package says."""

from __future__ import annotations

import re
from importlib.metadata import requires
from importlib.util import find_spec

_EXTRA = re.compile(r"([\w.-]+).*;.*\bextra == [\"'](\w+)[\"']")


def extras_with(module: str) -> list[str]:
    """The extras of which a module's distribution is a part; none if it belongs to no extra."""
    wanted = module.partition(".")[0].casefold()
    found = [match.groups() for line in requires("pumice") or () if (match := _EXTRA.match(line))]
    return [extra for name, extra in found if name.replace("-", "_").casefold() == wanted]


def needs(module: str) -> None:
    """Before anything else is done: the command cannot do without a module.

    :raises ModuleNotFoundError: it is not there; the command then says which extra to install.
    """
    if find_spec(module) is None:
        raise ModuleNotFoundError(f"No module named {module!r}", name=module)
