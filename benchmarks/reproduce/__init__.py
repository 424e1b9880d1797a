"""Results that others published or computed, reproduced with the real scheduler."""
