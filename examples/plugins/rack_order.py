"""A plugin for ``--plugins-dir``: the scheduler calls ``New(arguments)``, the counterpart of Volcano's ``.so`` files.

The file's name gives the plugin's name, ``rack-order``. The class needs nothing from pumice but the calls it makes.
"""


class RackOrder:
    """Prefers nodes of the racks in the argument ``racks``, in that order: ``racks: "r1, r2"``."""

    def __init__(self, racks):
        self.scores = {rack: len(racks) - n for n, rack in enumerate(racks)}

    def on_session_open(self, ssn):
        ssn.add_node_order_fn("rack-order", self.score)

    def score(self, task, node):
        return self.scores.get(node.labels.get("rack"), 0)


def New(arguments):  # noqa: N802 - the name that every plugin file exports
    return RackOrder(arguments.list("racks"))
