"""The extension points that an extender answers: about nodes, about victims, about jobs and queues."""
