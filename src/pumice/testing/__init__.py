"""Public pytest kit."""
