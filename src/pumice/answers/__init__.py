"""Questions about a cluster, answered once for everybody: why a job waits, how a queue stands, what a new job would do.

Answers are plain values over a state and a configuration (`answers.py`). Nothing here talks to anybody: commands print
them, the scheduler serves them, and what a stranger may not see is taken out in one place (`sight.py`).
"""
