"""A cycle on file: taken from a state, written, read from whoever sent it, without names of people if wished."""

from pumice.saved.cycle import SavedCycle, restore
from pumice.saved.files import dump, is_saved, parse, read, write

__all__ = ["SavedCycle", "dump", "is_saved", "parse", "read", "restore", "write"]
