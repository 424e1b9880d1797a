"""KAI's plugins: one module or package each; they do not know each other."""
