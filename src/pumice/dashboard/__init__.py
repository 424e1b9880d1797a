"""A page over a cluster: queues, who waits and why, nodes, what changed when, what a job would do.

`survey.py` takes everything at one instant, `seeing.py` leaves of it what somebody may see before anything is added up,
`chronicle.py` remembers what happened, `server.py` serves it. Pages are made on the server (`templates`); scripts and
styles are in the package (`static`), and nothing comes from another host.
"""
