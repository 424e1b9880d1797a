"""A conf beside the scheduler that runs: what it would decide otherwise, without deciding anything.

`beside.py` follows the cluster's events and lets the candidate decide on every instant; `ledger.py` compares that with
what was done; `report.py` is what is left of it. Nothing here can write to a cluster: no module that does is imported.
"""
