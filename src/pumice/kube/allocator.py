"""What the C library does with memory that is free again: as it is, a process keeps most of it for good.

A list of everything is read as one large piece. glibc takes such a piece from the system and gives it back; but after
the first one it takes pieces of that size from its heaps, of which every thread has one, and small things that stay
come to lie behind what went. So a process would be larger after each outage of a server. Where there is another C
library nothing of this is done.
"""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Final

_ARENA_MAX: Final = -8
_MMAP_THRESHOLD: Final = -3
_TRIM_THRESHOLD: Final = -1
LARGE: Final = 1024 * 1024
"""Pieces of more bytes than this come from the system one by one, and go back: lists, but not what a cycle adds up."""
_SPARE: Final = 4 * LARGE
"""So much may be free at the end of the heap."""


@cache
def _glibc() -> ctypes.CDLL | None:
    try:
        library = ctypes.CDLL(None)
        return library if hasattr(library, "mallopt") and hasattr(library, "malloc_trim") else None
    except OSError:
        return None


def use_one_heap() -> bool:
    """One heap for all threads, and large pieces beside it, from now on; False where that cannot be had."""
    library = _glibc()
    settings = ((_ARENA_MAX, 1), (_MMAP_THRESHOLD, LARGE), (_TRIM_THRESHOLD, _SPARE))
    return library is not None and all(library.mallopt(*setting) for setting in settings)


def give_back() -> bool:
    """Give whole free pages of the heap back to the system; True if there were any. Takes some milliseconds."""
    library = _glibc()
    return library is not None and bool(library.malloc_trim(0))
