"""The life of a workload: pods and PodGroup of a job, reactions of its policies, its phases. No I/O, no clock."""
