"""Wrong plugins: each line that ends with ``# wrong`` is an error for every checker, and no other line is."""

from __future__ import annotations

from pumice import Arguments, EventHandler, Job, Node, NodeRows, Plugin, Queue, Session, Task, Unfit


class TooFewParameters(Plugin):
    name = "w1"

    def predicate(self, task: Task) -> None:  # wrong
        raise Unfit("no")


class WrongOrderOfParameters(Plugin):
    name = "w2"

    def predicate(self, node: Node, task: Task) -> None:  # wrong
        raise Unfit("no")


class AnswersTruth(Plugin):
    name = "w3"

    def predicate(self, task: Task, node: Node) -> bool:  # wrong
        return True


class ScoresText(Plugin):
    name = "w4"

    def node_order(self, task: Task, node: Node) -> str:  # wrong
        return node.name


class JobAtATaskPoint(Plugin):
    name = "w5"

    def task_order(self, left: Job, right: Job) -> int:  # wrong
        return left.priority - right.priority


class RegistersTooFew(Plugin):
    name = "w6"

    def on_session_open(self, ssn: Session) -> None:
        ssn.add_predicate_fn(self.name, self.look)  # wrong

    def look(self, task: Task) -> None:
        raise Unfit("no")


class RegistersAnotherThing(Plugin):
    name = "w7"

    def on_session_open(self, ssn: Session) -> None:
        ssn.add_node_order_fn(self.name, self.look)  # wrong

    def look(self, job: Job, node: Node) -> float:
        return 0.0


class RegistersAnotherAnswer(Plugin):
    name = "w8"

    def on_session_open(self, ssn: Session) -> None:
        ssn.add_job_ready_fn(self.name, self.ready)  # wrong

    def ready(self, job: Job) -> list[Task]:
        return []


class MisspeltRegistration(Plugin):
    name = "w9"

    def on_session_open(self, ssn: Session) -> None:
        ssn.add_predicates_fn(self.name, print)  # wrong
        ssn.add_node_order_fn(self.name, lambda task, node: node.lables)  # wrong


class WritesALabel(Plugin):
    name = "w10"

    def node_order(self, task: Task, node: Node) -> float:
        node.labels["seen"] = "yes"  # wrong
        node.name = "other"  # wrong
        return node.nome  # wrong


class WritesATask(Plugin):
    name = "w11"

    def predicate(self, task: Task, node: Node) -> None:
        task.priority = 9  # wrong
        task.job.queue = "mine"  # wrong
        task.requests = node.idle  # wrong
        del task.annotations["x"]  # wrong
        node.labels.update({"a": "b"})  # wrong
        if task.prioritty:  # wrong
            raise Unfit("no")


class WritesAQueue(Plugin):
    name = "w12"

    def overused(self, queue: Queue) -> bool:
        queue.allocated = queue.deserved  # wrong
        queue.weight = 3  # wrong
        return queue.wait > 1  # wrong


class WritesTheSession(Plugin):
    name = "w13"

    def on_session_open(self, ssn: Session) -> None:
        ssn.jobs["a/b"] = ssn.jobs["c/d"]  # wrong
        ssn.nodes.pop("n1")  # wrong
        ssn.total = ssn.total  # wrong


class AnotherKey(Plugin):
    name = "w14"

    def on_session_open(self, ssn: Session) -> None:
        for job in ssn.jobs.values():
            for task in job.tasks.values():
                print(ssn.jobs[task])  # wrong


class VictimsByName(Plugin):
    name = "w15"

    def preemptable(self, preemptor: Task, tasks: list[Task]) -> list[str]:  # wrong
        return [task.name for task in tasks]


class BatchOfFloats(Plugin):
    name = "w16"

    def batch_predicate(self, task: Task, rows: NodeRows) -> list[str]:  # wrong
        return rows.names

    def batch_node_order(self, task: Task, rows: NodeRows) -> float:  # wrong
        rows.table.idle[:] += 5000  # wrong
        rows.idle = rows.used  # wrong
        return float(rows.size)


class WrongHandler(Plugin):
    name = "w17"

    def on_session_open(self, ssn: Session) -> None:
        ssn.add_event_handler(EventHandler(allocate=self.took))  # wrong
        ssn.add_event_handler(self.took)  # wrong

    def took(self, task: Task) -> None:
        print(task)


class WrongArguments(Plugin):
    name = "w18"

    def __init__(self, arguments: Arguments) -> None:
        super().__init__(arguments)
        self.weight: int = arguments.float("weight", 1)  # wrong
        self.flag = arguments.bool("flag", "no")  # wrong
        self.racks = arguments.list_of("racks")  # wrong


class WrongKey(Plugin):
    name = "w19"

    def on_session_open(self, ssn: Session) -> None:
        ssn.add_job_order_key_fn(self.name, self.of_two)  # wrong

    def of_two(self, left: Job, right: Job) -> int:
        return 0


class WrongHook(Plugin):
    name = 20  # wrong

    def on_session_open(self, ssn: Session, conf: str) -> None:  # wrong
        print(conf)
