"""What if: queues, nodes or the conf were others. The next cycle is decided twice, as things are and as they would be.

`supposition.py` is what can be supposed, `applying.py` puts it onto a cluster, `sides.py` decides both, `effects.py`
says what differs. All of it happens on a copy of the cluster; servers have it done in a process of its own
(`apart.py`).
"""
