"""Puts ``simulated_runs`` where the tests of this folder can import it (pytest adds the folder of a conftest)."""
