"""Mechanism: extension points, how answers combine, session, statement, plugins and how they are loaded."""
