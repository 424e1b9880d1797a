"""The simulator: an embedded cluster on virtual time, the traces it plays and the reports it gives."""
