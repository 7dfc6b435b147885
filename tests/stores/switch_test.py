"""A program is switched from one service to another by its URL alone, while it works. docs/switching-backends.md is the
guide that this follows.

Usage, beside both clusters and a PostgreSQL: switch_test.py path/to/ledger [unittest arguments]
"""

import os
import unittest

from ledger import LedgerTest, wait_until

WORKERS = ("0", "1", "2")
PAIRS = "2"


class Switch(LedgerTest):
    def setUp(self):
        super().setUp()
        self.zk = os.environ["HOLDFAST_TEST_URL_ZK"] + self.root
        self.etcd = os.environ["HOLDFAST_TEST_URL_ETCD"] + self.root

    def work(self, url, name, count):
        return self.start(url, "work", name, PAIRS, str(count))

    def test_the_store_refuses_until_the_epoch_is_raised_and_then_everything_goes_on(self):
        self.setup_pairs(int(PAIRS))
        old = [self.work(self.zk, f"old{n}", 1_000_000) for n in WORKERS]
        for n in WORKERS:
            wait_until(lambda n=n: self.journal(f"old{n}") >= 3, "the old workers work")

        # The new service's fences are lower: its workers are refused, told what to do, and write nothing.
        hasty = self.work(self.etcd, "hasty", 1)
        said, _ = hasty.communicate(timeout=60)
        self.assertEqual(hasty.returncode, 1, said)
        self.assertIn("the fence is stale", said)
        self.assertIn("raise fence_epoch", said)
        self.assertEqual(self.journal("hasty"), 0)

        # With the epoch raised they work, beside the old ones, who are refused from then on and end.
        new = [self.work(f"{self.etcd}?fence_epoch=1", f"new{n}", 20) for n in WORKERS]
        for process in new:
            self.finish(process)
        for process in old:
            said, _ = process.communicate(timeout=60)
            self.assertEqual(process.returncode, 1, said)
            self.assertRegex(said, r"has seen 1\.\d+, this one is 0\.\d+")

        # What the old ones had begun is taken up where it was, and made once.
        for n in WORKERS:
            made = self.journal(f"old{n}")
            self.finish(self.work(f"{self.etcd}?fence_epoch=1", f"old{n}", made + 1))
            self.assertEqual(self.journal(f"old{n}"), made + 1)
            self.assertEqual(self.journal(f"new{n}"), 20)
        right, books = self.audit()
        self.assertTrue(right, books)


unittest.main()
