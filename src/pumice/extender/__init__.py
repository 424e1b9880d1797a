"""Policies over HTTP: the messages (``wire``), the client, the client as a plugin, and the server."""
