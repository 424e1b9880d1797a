"""Regular expressions from outside: matched in time that grows with the text alone, whatever the pattern."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from itertools import islice
from typing import Any, Final

import re2

from pumice.errors import InvalidInput, shown

_LONGEST: Final = 1000
"""Characters of a pattern that anybody writes by hand."""
_MOST_MEMORY: Final = 1 << 20
"""The size of a compiled pattern: some 40,000 states. One that needs more is refused after some 5 ms."""


def matcher(pattern: str) -> Callable[[str], bool]:
    """Whether a text has a part that a pattern matches (RE2's syntax, which is Go's and so Volcano's).

    :raises InvalidInput: the pattern cannot be read, or is too long.
    """
    compiled = _compiled(pattern)
    return lambda text: compiled.search(text) is not None


@lru_cache(maxsize=1024)
def _compiled(pattern: str) -> Any:
    if len(pattern) > _LONGEST:
        raise InvalidInput(f"pattern {shown(pattern)}: must have at most {_LONGEST} characters, has {len(pattern)}")
    options = re2.Options()
    options.log_errors, options.max_mem = False, _MOST_MEMORY
    try:
        return re2.compile(pattern, options)
    except re2.error as exc:
        said = exc.args[0]
        text = said.decode(errors="replace") if isinstance(said, bytes) else str(said)
        raise InvalidInput(f"pattern {shown(pattern)}: {text}") from None


def program_size(pattern: str) -> int:
    """The states of a compiled pattern: a search takes at most so many steps for each character.

    :raises InvalidInput: the pattern cannot be read, or is too long.
    """
    return int(_compiled(pattern).programsize)


def finder(pattern: str) -> Callable[[str, int], list[str]]:
    """The parts of a text that a pattern matches, in order, at most so many.

    :raises InvalidInput: the pattern cannot be read, or is too long.
    """
    compiled = _compiled(pattern)
    return lambda text, most: [found.group() for found in islice(compiled.finditer(text), most)]
