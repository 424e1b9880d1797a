"""A cluster as KAI's policies see and change it in mind: tasks, sub-groups, nodes with shared GPUs, queues."""
