"""The checker of fault runs notices every kind of violation, and finds nothing where there is none."""

import json
import sys
import unittest

sys.dont_write_bytecode = True

import history  # noqa: E402
from leaks import Leaks  # noqa: E402

MS = 1_000_000


class Story:
    """Builds a history; times in milliseconds."""

    def __init__(self):
        self.lines = []

    def add(self, at, what, worker=None, lock="x", **more):
        self.lines.append({"at": at * MS, "what": what, "worker": worker, "lock": lock, **more})
        return self

    def hold(self, worker, fence, begin, end, lock="x"):
        self.add(begin - 2, "wants", worker, lock).add(begin - 1, "granted", worker, lock, fence=fence)
        for at in (begin, end):
            self.add(at, "valid", worker, lock, fence=fence, before=at * MS, until=(at + 1000) * MS)
        return self

    def released(self, worker, fence, at, lock="x"):
        return self.add(at, "released", worker, lock, fence=fence, begun=at * MS, outcome="ok")

    def healed(self, at=10_000):
        return self.add(at, "healed").add(at + 1, "remaining", names=[])

    def found(self, journals=None, bound=5_000):
        told = history.History([json.dumps(line) for line in self.lines])
        return [rule for rule, _ in history.check(told, journals or {}, bound * MS)]


class Notices(unittest.TestCase):
    def test_nothing_where_all_is_well(self):
        story = Story().hold("w1", 1, 10, 20).released("w1", 1, 20).hold("w2", 2, 21, 30).released("w2", 2, 30).healed()
        self.assertEqual(story.found({"x": ["1 accepted", "1 accepted", "2 accepted", "1 refused"]}), [])

    def test_two_valid_holds_at_once(self):
        self.assertEqual(Story().hold("w1", 1, 10, 20).hold("w2", 2, 19, 30).healed().found(), ["exclusion"])

    def test_one_within_another(self):
        story = Story().hold("w1", 1, 10, 100).hold("w2", 2, 20, 30).hold("w3", 3, 40, 50).healed()
        self.assertEqual(story.found(), ["exclusion", "exclusion"])

    def test_one_that_is_stopped_while_it_is_valid(self):
        story = Story().hold("w1", 1, 10, 20).hold("w2", 2, 900, 910)  # the first one would say so until 1020
        story.add(2000, "stopped", "w1", since=30 * MS).healed()
        self.assertEqual(story.found(), ["exclusion"])

    def test_but_not_after_its_deadline(self):
        story = Story().hold("w1", 1, 10, 20).hold("w2", 2, 1021, 1030).add(2000, "stopped", "w1", since=30 * MS).healed()
        self.assertEqual(story.found(), [])

    def test_nor_after_it_was_released(self):
        story = Story().hold("w1", 1, 10, 20).hold("w2", 2, 900, 910).add(2000, "stopped", "w1", since=30 * MS)
        story.add(2001, "released", "w1", fence=1, begun=29 * MS, outcome="ok")
        self.assertEqual(story.healed().found(), [])

    def test_but_not_on_different_locks(self):
        self.assertEqual(Story().hold("w1", 1, 10, 20).hold("w2", 2, 15, 30, lock="y").healed().found(), [])

    def test_a_fence_that_does_not_grow(self):
        self.assertEqual(Story().hold("w1", 2, 10, 20).hold("w2", 1, 21, 30).healed().found(), ["fences"])

    def test_a_fence_given_twice(self):
        self.assertIn("fences", Story().hold("w1", 1, 10, 20).hold("w2", 1, 21, 30).healed().found())

    def test_a_stale_write_that_was_accepted(self):
        self.assertEqual(Story().healed().found({"x": ["2 accepted", "1 accepted"]}), ["stale writes"])

    def test_a_loss_that_was_never_told(self):
        story = Story().hold("w1", 1, 10, 20).add(30, "invalid", "w1", fence=1, before=30 * MS, until=0).healed()
        self.assertEqual(story.found(), ["late news"])

    def test_a_loss_told_late(self):
        story = Story().hold("w1", 1, 10, 20).add(30, "invalid", "w1", fence=1, before=30 * MS, until=0)
        story.add(131, "lost", "w1", fence=1).healed()
        self.assertEqual(story.found(), ["late news"])

    def test_but_not_if_the_process_did_not_run(self):
        story = Story().hold("w1", 1, 10, 20).add(30, "invalid", "w1", fence=1, before=30 * MS, until=0)
        story.add(140, "stalled", "w1", since=50 * MS).add(141, "lost", "w1", fence=1).healed()
        self.assertEqual(story.found(), [])

    def test_nor_if_it_was_killed_before_it_could_be_told(self):
        story = Story().hold("w1", 1, 10, 20).add(30, "invalid", "w1", fence=1, before=30 * MS, until=0)
        story.add(60, "killed", "w1").healed()
        self.assertEqual(story.found(), [])

    def test_a_waiter_forgotten_after_healing(self):
        self.assertEqual(Story().add(10, "wants", "w1").healed().add(16_000, "wants", "w2").found(), ["forgotten"])

    def test_a_grant_that_comes_too_late_after_healing(self):
        story = Story().add(10, "wants", "w1").healed().add(15_001, "granted", "w1", fence=1)
        self.assertEqual(story.found(), ["forgotten"])

    def test_but_not_while_it_did_not_run(self):
        story = Story().add(10, "wants", "w1").healed().add(15_000, "stalled", "w1", since=14_000 * MS)
        self.assertEqual(story.add(15_001, "granted", "w1", fence=1).found(), [])

    def test_but_not_one_who_was_killed(self):
        self.assertEqual(Story().add(10, "wants", "w1").add(20, "killed", "w1").healed().found(), [])

    def test_what_is_left_behind(self):
        story = Story().add(10, "healed").add(11, "remaining", names=["x"])
        self.assertEqual(story.found(), ["left over"])
        self.assertEqual(Story().add(10, "healed").found(), ["left over"])


class NoticesLeaks(unittest.TestCase):
    def found(self, worker_after=None, server_left=None):
        leaks = Leaks(None)
        few = {"memory_kb": 10_000, "threads": 7, "descriptors": 11}
        leaks.workers["w1"] = {"before": few, "after": few | (worker_after or {})}
        none = {"watches": 0, "entries": 0}
        leaks.servers[1] = {"empty": none, "busy": {"watches": 9, "entries": 9}, "left": none | (server_left or {})}
        return len(list(leaks.found()))

    def test_nothing_where_all_is_given_back(self):
        self.assertEqual(self.found(), 0)

    def test_in_workers(self):
        self.assertEqual(self.found(worker_after={"memory_kb": 30_000}), 1)
        self.assertEqual(self.found(worker_after={"threads": 16}), 1)
        self.assertEqual(self.found(worker_after={"descriptors": 20}), 1)

    def test_at_servers(self):
        self.assertEqual(self.found(server_left={"watches": 1}), 1)
        self.assertEqual(self.found(server_left={"entries": 1}), 1)


if __name__ == "__main__":
    unittest.main()
