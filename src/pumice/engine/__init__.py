"""How a question about many nodes is answered fast: row views, evaluation by class and row, choice, ordered queues."""
