"""The story that fences are for, with real processes, on a real cluster and a real PostgreSQL.

Usage, beside both: ledger_test.py path/to/ledger [unittest arguments]
"""

import os
import unittest

from ledger import LedgerTest, wait_until_stopped, wake

TTL = 4  # seconds


class PausedWorker(LedgerTest):
    def url(self):
        return f"{os.environ['HOLDFAST_TEST_URL']}{self.root}?ttl={TTL}s"

    def play(self, *options):
        """A reads, and stops; its session ends; B takes over and writes; A wakes, and writes. What A said."""
        self.setup_pairs(1)
        a = self.start(self.url(), "transfer", "A", "0", "10", "--stop-once", *options)
        wait_until_stopped(a)
        self.run_to_end(self.url(), "transfer", "B", "0", "100", *options)
        self.assertIsNone(a.poll())
        wake(a)
        return self.finish(a)

    def test_its_late_write_is_refused_and_the_books_are_right(self):
        said = self.play()
        self.assertRegex(said, r"A: the fence is stale: 'pair/0' has seen 0\.\d+, this one is 0\.\d+")
        right, books = self.audit()
        self.assertTrue(right, books)
        self.assertIn("2 transfers", books)  # A's as well, once, when it had the lock again

    def test_without_a_fence_the_same_run_corrupts_the_books(self):
        said = self.play("--no-fence")
        self.assertNotIn("stale", said)
        right, books = self.audit()
        self.assertFalse(right, "nothing was refused, and B's transfer ought to be overwritten")
        self.assertIn("account 0 has 990 instead of 890", books)
        self.assertIn("account 1 has 1010 instead of 1110", books)

    def test_among_many_workers_it_is_refused_and_everything_adds_up(self):
        self.setup_pairs(2)
        a = self.start(self.url(), "work", "A", "2", "5", "--stop-once")
        wait_until_stopped(a)
        others = [self.start(self.url(), "work", name, "2", "15") for name in "BCDE"]
        for other in others:
            self.finish(other)
        wake(a)
        self.assertIn("A-0: the fence is stale", self.finish(a))
        right, books = self.audit()
        self.assertTrue(right, books)
        self.assertIn("65 transfers", books)

    def test_a_transfer_that_is_repeated_is_made_once(self):
        self.setup_pairs(1)
        for _ in range(2):
            self.run_to_end(self.url(), "transfer", "A", "0", "10")
        right, books = self.audit()
        self.assertTrue(right, books)
        self.assertIn("1 transfers", books)


unittest.main()
