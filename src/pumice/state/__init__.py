"""The known state of the cluster: objects, NumPy columns and indexes, kept up to date event by event."""
