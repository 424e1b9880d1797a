"""Kubernetes manifests from files, read in one way for all commands, and completed as an API server does."""

from pumice.manifests.completing import completed, completed_spec
from pumice.manifests.documents import ManifestDocument, documents
from pumice.manifests.reading import Manifests, Placed, read, read_text, unread_words

__all__ = [
    "ManifestDocument",
    "Manifests",
    "Placed",
    "completed",
    "completed_spec",
    "documents",
    "read",
    "read_text",
    "unread_words",
]
