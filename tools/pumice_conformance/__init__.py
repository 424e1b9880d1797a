"""Runs cases-as-data and prints what differs."""
