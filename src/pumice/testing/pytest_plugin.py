"""The pytest plugin that a project gets by installing pumice."""
