"""The asking side: the plugin ``extender``, which asks a service over HTTP at every point that a verb carries."""
