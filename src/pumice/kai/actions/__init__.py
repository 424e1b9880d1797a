"""KAI's actions: one module each; they do not know each other."""
