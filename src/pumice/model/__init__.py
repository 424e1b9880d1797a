"""Values and arithmetic: what the cluster holds and how it is counted. No I/O, no clock, no randomness."""
