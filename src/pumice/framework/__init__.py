"""Mechanism: extension points, the session, placing, evicting, explaining; plugins and how they are loaded."""
