"""KAI-Scheduler's decisions: what its sessions see (`view`), how they search (`search`), actions and plugins."""
