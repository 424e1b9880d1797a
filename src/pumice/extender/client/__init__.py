"""The network side of the extender plugin: one event loop in a thread of its own, pooled connections, deadlines."""

from pumice.extender.client.client import Client as Client
