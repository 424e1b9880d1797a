"""When a job will likely start: the cluster played forward with learned run times, corrected by how that came out."""
