"""What becomes of a workload: pods and PodGroup of a job, answers of its policies, its phases. No I/O, no clock."""
