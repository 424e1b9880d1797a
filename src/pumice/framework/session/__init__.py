"""Session: one instant of the cluster, what plugins see of it, and what actions use beside it."""
