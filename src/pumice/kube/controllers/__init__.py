"""Controllers for clusters without Volcano: jobs, PodGroups for pods that have none, queues. A command of its own.

Each compares objects with the cluster and does what is missing, so it may be stopped at any moment and begun again. The
rules are in `pumice.workloads`; here is what talks to the server.
"""
