"""What the benchmarks on a real API server are made of."""
