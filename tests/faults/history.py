"""What happened in a fault run, and whether it was right.

A history is JSON, one object per line, with `at` in nanoseconds of CLOCK_BOOTTIME. Workers (worker.cpp) write
    wants|granted|failed|released LOCK    an acquire from its call to its outcome; a release, from `begun` on
    valid|invalid LOCK                    what valid_for() said between `before` and `at`: until when, or no longer
    lost LOCK                             lost() fired
    wrote LOCK                            a write to the store and whether it was accepted
    stalled                               the process did not run, from `since` on
and who runs them (run) writes
    fault                                 what was done: `name` in words; `verb`, `targets`, `length` in seconds or null, and
                                          the `track` that it belongs to (schedule.py)
    killed                                a worker
    stopped                               a worker was not running, from `since` on
    healed                                from here on nothing is broken any more
    remaining                             `names` of the locks that are still there at the end
"""

import collections
import json
import os

MS = 1_000_000
TTL = 3  # seconds, of every fault run
TOLD_WITHIN = 100 * MS
GRANTED_WITHIN = (2 * TTL + 5) * 1000 * MS  # of healing


class Hold:
    """One grant: valid from the end of the first look that said so to the beginning of the last one. If its worker was
    stopped right after a look, nothing can have made it invalid since but its deadline: it is valid until then, or
    until the worker ran again."""

    def __init__(self, worker, lock, fence):
        self.worker, self.lock, self.fence = worker, lock, fence
        self.granted = self.first = self.last = self.looked = self.until = self.invalid = self.lost = self.released = None

    def stopped(self, to):
        if self.last and not (self.invalid or self.lost or self.released):
            self.last = max(self.last, min(self.until, to))

    def over(self, at):
        if self.last:
            self.last = min(self.last, at)

    def __str__(self):
        return f"{self.worker} (fence {self.fence})"


class History:
    def __init__(self, lines):
        self.events = sorted((json.loads(line) for line in lines), key=lambda event: event["at"])
        self.holds = {}  # (lock, fence): Hold
        self.latest = {}  # worker: Hold
        self.wants = []  # [worker, lock, from, to or None]
        self.writes = []
        self.highest = collections.Counter()  # lock: the highest fence that was written with
        self.absent = collections.defaultdict(list)  # worker: [(from, to)] in which it did not run
        self.killed = {}  # worker: when
        self.faults = []
        self.healed = self.remaining = None
        self.twice = []
        waiting = {}
        for event in self.events:
            self.take(event, waiting)
        self.wants += [[*key, since, None] for key, since in waiting.items()]

    def take(self, event, waiting):
        at, what, worker, lock = event["at"], event["what"], event.get("worker"), event.get("lock")
        hold = self.holds.get((lock, event.get("fence")))
        match what:
            case "wants":
                waiting[worker, lock] = at
            case "failed":
                self.wants.append([worker, lock, waiting.pop((worker, lock), at), at])
            case "granted":
                self.wants.append([worker, lock, waiting.pop((worker, lock), at), at])
                if hold:
                    self.twice.append((hold, worker))
                hold = self.holds[lock, event["fence"]] = Hold(worker, lock, event["fence"])
                self.latest[worker] = hold
                hold.granted = at
            case "valid":
                hold.first = hold.first or at
                hold.last = hold.looked = max(hold.last or 0, event["before"])
                hold.until = event["until"]
            case "invalid":
                hold.invalid = hold.invalid or at
                hold.over(event["before"])
            case "lost":
                hold.lost = hold.lost or at
            case "released":
                hold.released = event["begun"]
                hold.over(hold.released)
            case "wrote":
                stale = event["fence"] < self.highest[lock]  # the store's journal is more exact: see stale_writes()
                self.highest[lock] = max(self.highest[lock], event["fence"])
                self.writes.append(event | {"stale": stale})
            case "stalled":
                self.absent[worker].append((event["since"], at))
            case "stopped":
                if worker in self.latest:
                    self.latest[worker].stopped(at)
            case "killed":
                self.killed[worker] = at
                for key in [key for key in waiting if key[0] == worker]:
                    del waiting[key]
            case "fault":
                self.faults.append(event)
            case "healed":
                self.healed = at
            case "remaining":
                self.remaining = event["names"]

    def awake(self, worker, since, to):
        """How much of a time a worker was running."""
        away = sum(max(0, min(to, end) - max(since, begin)) for begin, end in self.absent[worker])
        return to - since - away


def by_lock(history):
    locks = collections.defaultdict(list)
    for hold in history.holds.values():
        locks[hold.lock].append(hold)
    return locks


def overlaps(history):
    """Two valid windows of one lock share no instant."""
    for lock, holds in by_lock(history).items():
        windows = sorted((hold for hold in holds if hold.last), key=lambda hold: hold.first)
        latest = None
        for hold in windows:
            if latest and hold.first < latest.last:
                yield f"{lock}: {latest} and {hold} were both valid for {(latest.last - hold.first) / MS:.3f} ms"
            if not latest or hold.last > latest.last:
                latest = hold


def fences(history):
    """Fences grow in the order of the grants, and none is given twice."""
    for hold, worker in history.twice:
        yield f"{hold.lock}: fence {hold.fence} was given to {hold.worker} and to {worker}"
    for lock, holds in by_lock(history).items():
        highest = None
        for hold in sorted((hold for hold in holds if hold.last), key=lambda hold: hold.first):
            if highest and hold.fence <= highest.fence:
                yield f"{lock}: {hold} came after {highest}"
            highest = hold if not highest or hold.fence > highest.fence else highest


def stale_writes(history, journals):
    """No accepted write has a lower fence than one accepted before it, in the order of the store itself."""
    for lock, lines in journals.items():
        highest = 0
        for line in lines:
            fence, verdict = line.split()
            if verdict == "accepted" and int(fence) < highest:
                yield f"{lock}: the store accepted fence {fence} after {highest}"
            if verdict == "accepted":
                highest = max(highest, int(fence))


def late_news(history):
    """Who lost a hold was told by 100 ms after valid() turned false, not counting time in which it did not run."""
    for hold in history.holds.values():
        if not hold.invalid:
            continue
        until = hold.lost or history.killed.get(hold.worker) or history.events[-1]["at"]
        if history.awake(hold.worker, hold.invalid, until) <= TOLD_WITHIN:
            continue
        if hold.lost:
            yield f"{hold.lock}: {hold} was told {(hold.lost - hold.invalid) / MS:.0f} ms after valid() turned false"
        else:
            yield f"{hold.lock}: {hold} was never told of its loss"


def forgotten(history, bound):
    """Whoever waits when all is healed is granted within the bound, not counting time in which it did not run."""
    for worker, lock, since, to in history.wants:
        begin, end = max(since, history.healed), to or history.events[-1]["at"]
        if (to is None or to > history.healed) and history.awake(worker, begin, end) > bound:
            yield f"{lock}: {worker} waited {(end - begin) / MS:.0f} ms after healing"


def longest_wait(history):
    """After healing, of those who were granted or still wait."""
    return max((to or history.events[-1]["at"]) - max(since, history.healed)
               for _, _, since, to in history.wants if to is None or to > history.healed)


def left_over(history):
    """At the end nothing is left."""
    if history.remaining is None:
        yield "nobody looked at what is left"
    for name in history.remaining or []:
        yield f"entries of {name} were left behind"


def check(history, journals, bound=GRANTED_WITHIN):
    """Every violation, as (rule, sentence)."""
    rules = {"exclusion": overlaps(history), "fences": fences(history), "stale writes": stale_writes(history, journals),
             "late news": late_news(history), "forgotten": forgotten(history, bound), "left over": left_over(history)}
    return [(rule, sentence) for rule, found in rules.items() for sentence in found]


def load(directory):
    lines, journals = [], {}
    for name in sorted(os.listdir(directory)):
        if name.endswith(".history"):
            with open(f"{directory}/{name}") as history:
                lines += [line for line in history if line.endswith("\n")]  # a killed writer's last one may be half
        elif name.endswith(".journal"):
            with open(f"{directory}/{name}") as journal:
                journals[name.removesuffix(".journal")] = journal.read().splitlines()
    return History(lines), journals
