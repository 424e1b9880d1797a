"""The measured shapes: clusters and workloads, run through the public path (events in, intents out)."""
