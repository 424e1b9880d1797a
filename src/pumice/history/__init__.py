"""What happened to every job of a cluster, written as it happens, line by line, and read again."""
