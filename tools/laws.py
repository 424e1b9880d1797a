"""Try the laws of scheduling on many random clusters, in pieces that can be repeated.

    python tools/laws.py --stories 20000 --seed 1

Each piece is a run of the files in TESTS with a seed of its own, so a failure is found again with that seed alone. A
piece that fails does not end the run: all pieces are tried, then the failures are named.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
TESTS = ("tests/property/test_laws_of_scheduling.py", "tests/property/test_attachments_are_kept.py")
LAWS = 7
"""Each is tried on as many clusters; a test compares the number with the files."""
PIECE = 500


def command(each: int, seed: int) -> tuple[dict[str, str], list[str]]:
    """What is added to the environment, and the command, that try every law on so many clusters from a seed."""
    words = [sys.executable, "-m", "pytest", "-q", "--tb=short", *TESTS, f"--hypothesis-seed={seed}", "--timeout=0"]
    return {"PUMICE_LAW_EXAMPLES": str(each)}, words


def pieces(stories: int, first: int) -> list[tuple[int, int]]:
    """(clusters for each law, seed) of every piece; together at least as many stories as were asked for."""
    each = min(PIECE, stories) // LAWS or 1
    return [(each, first + n) for n in range(-(-stories // (each * LAWS)))]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--stories", type=int, default=20_000, metavar="N", help="how many random clusters in all")
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="the seed of the first piece")
    asked = parser.parse_args()
    told, failed = 0, []
    for each, seed in pieces(asked.stories, asked.seed):
        added, words = command(each, seed)
        began = time.monotonic()
        ran = subprocess.run(words, cwd=ROOT, env={**os.environ, **added}, capture_output=True, text=True, check=False)
        told += each * LAWS
        took, verdict = time.monotonic() - began, "FAILED" if ran.returncode else "ok"
        print(f"seed {seed}: {each * LAWS} stories, {took:.0f} s, {verdict}; {told} told", flush=True)
        if ran.returncode:
            failed.append(seed)
            print(ran.stdout + ran.stderr, flush=True)
    for seed in failed:
        print(f"again: make test-laws STORIES={min(PIECE, asked.stories)} SEED={seed}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
