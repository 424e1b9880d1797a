"""Explaining: from recorded reasons to an answer that a person can use."""
