"""For authors of extenders: check a running one, record its traffic, answer from a recording."""
