"""What KAI's actions are made of: the order of work, placing a job, and the search for victims."""
