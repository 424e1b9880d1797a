"""Conservative backfilling (Mu'alem and Feitelson, TPDS 2001): every job has a reservation that no later one delays."""

import numpy as np

from pumice import Argument, Job, Plugin, Session, Verdict, reject

RUN_TIME = "pumice.dev/run-time"


class Conservative(Plugin):
    """Gives every job the earliest time with room for it, by submission; a job starts when its time has come.

    It counts one resource of the whole cluster and plans with the run times that jobs declare. When a job ends,
    reservations move forward in the order of submission; if it ends later than declared, all are made anew.
    """

    name = "conservative"
    resource = Argument("cpu", "What is scarce.")

    def on_session_open(self, ssn: Session) -> None:
        ssn.add_job_valid_fn(self.name, self.may_start)
        self.now, old, planned = ssn.now, ssn.memory.get("ends", {}), ssn.memory.get("starts", {})
        jobs = sorted(ssn.jobs.values(), key=lambda job: (job.creation, job.uid))
        running = [job for job in jobs if job.allocated[self.resource]]
        waiting = [job for job in jobs if not job.allocated[self.resource]]
        ends = {job.uid: old.get(job.uid, planned.get(job.uid, self.now) + length(job)) for job in running}
        early = bool((old.keys() | planned.keys()) - ssn.jobs.keys())
        late = any(end < self.now for uid, end in old.items() if uid not in ends)
        self.starts = {uid: start for uid, start in planned.items() if start >= self.now and not late}
        held = [(self.now, max(ends[job.uid], self.now + 1), job.allocated[self.resource]) for job in running]
        for job in waiting:
            if job.uid in self.starts:
                start = self.starts[job.uid]
                held.append((start, start + length(job), job.total_request[self.resource]))
        self.profile(float(ssn.total[self.resource]), np.array(held, float).reshape(-1, 3))
        for job in waiting:
            start, need = self.starts.get(job.uid), job.total_request[self.resource]
            if start is None or (early and start > self.now):
                if start is not None:
                    self.take(start, start + length(job), -need)
                start = self.starts[job.uid] = self.earliest(need, length(job))
                self.take(start, start + length(job), need)
        ssn.memory.update(ends=ends, starts={job.uid: self.starts[job.uid] for job in waiting})

    def may_start(self, job: Job) -> Verdict | None:
        if self.starts.get(job.uid, self.now) <= self.now:
            return None
        return reject("has a reservation for later")

    def profile(self, total: float, held: "np.ndarray[tuple[int, int], np.dtype[np.float64]]") -> None:
        """What is free from each time on, until the next."""
        begins, ends, needs = held.T
        self.times = np.unique(np.concatenate(([self.now], begins, ends)))
        change = np.zeros(len(self.times))
        np.add.at(change, np.searchsorted(self.times, begins), -needs)
        np.add.at(change, np.searchsorted(self.times, ends), needs)
        self.free = total + np.cumsum(change)

    def earliest(self, need: float, long: float) -> float:
        """The first time from which on so much is free for so long."""
        short = np.flatnonzero(self.free < need)
        begins = np.concatenate(([0], short + 1))
        ends = np.concatenate((self.times[short], [np.inf]))[begins < len(self.times)]
        begins = begins[begins < len(self.times)]
        fits = ends - self.times[begins] >= long
        return float(self.times[begins[fits.argmax()]]) if fits.any() else np.inf

    def take(self, start: float, end: float, need: float) -> None:
        for time in (start, end):
            at = int(np.searchsorted(self.times, time))
            if at == len(self.times) or self.times[at] != time:
                self.times, self.free = np.insert(self.times, at, time), np.insert(self.free, at, self.free[at - 1])
        first, last = np.searchsorted(self.times, (start, end))
        self.free[first:last] -= need


def length(job: Job) -> float:
    """The seconds that a job declares."""
    return float(job.annotations.get(RUN_TIME, "inf").removesuffix("s"))
