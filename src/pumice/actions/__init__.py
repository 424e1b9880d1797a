"""The steps of a cycle, one module each. No action knows a plugin by name."""
