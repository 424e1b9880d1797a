"""The history of every job of a cluster: written line by line as it happens, and read again."""
