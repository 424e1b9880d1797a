"""Pages over a cluster: queues, jobs and why they wait, nodes, what changed when, what a job would do.

`views.py` filters a survey by the caller's rights before anything is added up, `history.py` keeps what changed,
`server.py` serves the pages. They are made on the server (`templates`); scripts and styles are in the package
(`static`), and nothing comes from another host.
"""
