"""Commands: each parses, calls one function, renders. The only place that joins a backend with the scheduler."""
