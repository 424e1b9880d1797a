"""Reports of runs: one self-contained HTML page (``html``) and what the terminal shows (``terminal``).

Reads ``pumice.sim.results`` and decides nothing about figures: they come with their definitions from there. ``units``
words numbers for both; ``markup`` and ``charts`` make the page, ``assets`` holds its style and its few lines of script.
"""

from pumice.sim.report.page import html, html_seeds
from pumice.sim.report.terminal import render_comparison, render_seeds, render_summary

__all__ = ["html", "html_seeds", "render_comparison", "render_seeds", "render_summary"]
