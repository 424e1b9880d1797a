"""The answering side: any Plugin class as an HTTP extender."""
