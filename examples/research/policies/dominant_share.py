"""Dominant resource fairness (Ghodsi et al., NSDI 2011): the queue with the smallest dominant share goes first."""

from pumice import Plugin, Queue, Session


class DominantShare(Plugin):
    """Orders queues by the largest of their shares of what the cluster has, divided by their weight."""

    name = "dominant-share"

    def on_session_open(self, ssn: Session) -> None:
        self.total = {name: amount for name, amount in ssn.total.as_written().items() if amount and name != "pods"}
        ssn.add_queue_order_fn(self.name, self.order)

    def share(self, queue: Queue) -> float:
        """What the queue holds now, with all that was placed in this cycle."""
        return max((queue.held[name] / total for name, total in self.total.items()), default=0.0) / queue.weight

    def order(self, left: Queue, right: Queue) -> float:
        return self.share(left) - self.share(right)
