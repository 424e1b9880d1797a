"""Lines of the log, in which the texts of anybody do nothing to a terminal."""

from __future__ import annotations

import logging

from pumice.errors import without_passwords
from pumice.words import visible


class LogLines(logging.Formatter):
    """Formats records; signs that a terminal would obey are written out, passwords of URLs left out."""

    def format(self, record: logging.LogRecord) -> str:
        return visible(without_passwords(super().format(record)))
