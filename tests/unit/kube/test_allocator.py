"""Memory that is free again goes back to the system, where the C library can do that."""

from __future__ import annotations

import subprocess
import sys

from pumice.kube.reflector import _glibc, give_back, use_one_heap

GROWS = """
import sys
from pumice.kube.reflector import give_back, use_one_heap
if sys.argv[1] == "ours":
    assert use_one_heap()
def resident():
    return int(open("/proc/self/statm").read().split()[1]) * 4 // 1024
kept = []
large = bytes(2_000_000)
del large
before = resident()
for n in range(40):  # lists of two megabytes; of each a little stays, behind what goes
    body = [bytes(1000) for _ in range(2000)]
    kept.append(body[-1])
    del body
if sys.argv[1] == "ours":
    give_back()
print(resident() - before)
"""


def grown(how: str) -> int:
    """How many MiB a process is larger after lists came and went."""
    return int(subprocess.run([sys.executable, "-c", GROWS, how], capture_output=True, text=True, check=True).stdout)


def test_what_was_read_and_is_free_again_goes_back() -> None:
    if _glibc() is None:
        assert not use_one_heap()
        assert not give_back()
        return
    assert grown("ours") <= 1
