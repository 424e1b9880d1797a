"""The running whole: configuration to plugins and actions, the cycle, its report."""
