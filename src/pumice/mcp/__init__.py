"""Answers for agents, over the Model Context Protocol: questions about a cluster, and nothing that changes one.

`tools.py` is the table of what can be asked, `knowledge.py` where the answers come from, `bounds.py` what becomes of an
answer before it leaves, `stdio.py` the server. It runs in a process of its own, never in the scheduler's.
"""
