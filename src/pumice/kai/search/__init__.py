"""The parts of KAI's actions: the order of work, placing a job, and the search for victims."""
