"""The public test kit: builders, a session by hand, a scenario runner with assertions, and a pytest fixture.

A project that has pumice installed gets the fixture ``scenario`` without doing anything; the laws that hold for every
cycle are checked when a test that uses it ends.
"""

from pumice.testing.builders import cluster, job, node, pod, priority_class, queue
from pumice.testing.cycle import Cycle, Why
from pumice.testing.scenario import Scenario
from pumice.testing.sessions import session, task_of

__all__ = [
    "Cycle",
    "Scenario",
    "Why",
    "cluster",
    "job",
    "node",
    "pod",
    "priority_class",
    "queue",
    "session",
    "task_of",
]
