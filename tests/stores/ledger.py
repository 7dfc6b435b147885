"""examples/ledger for tests: a database of its own on the server of this run, and processes that use it."""

import os
import signal
import subprocess
import sys
import time
import unittest

PATIENCE = 60  # seconds until a test gives up; nothing here waits that long when all is well
SERVER = os.environ["HOLDFAST_TEST_POSTGRES"]  # run this beside a server: tests/stores/server run -- ...
LEDGER = sys.argv.pop(1)  # the program


def wait_until(condition, what):
    end = time.monotonic() + PATIENCE
    while not (result := condition()):
        if time.monotonic() > end:
            raise AssertionError("never happened: " + what)
        time.sleep(0.01)
    return result


def psql(database, sql):
    answer = subprocess.run(["psql", "-qAtX", "-v", "ON_ERROR_STOP=1", database, "-c", sql], check=True,
                            capture_output=True, text=True)
    return answer.stdout.strip()


class LedgerTest(unittest.TestCase):
    def setUp(self):
        name = "ledger_" + self.id().rsplit(".", 1)[-1].lower()
        psql(SERVER, f"drop database if exists {name}")
        psql(SERVER, f"create database {name}")
        self.database = f"{SERVER} dbname={name}"
        self.root = f"/{name}-{os.getpid()}"

    def start(self, url, *words):
        process = subprocess.Popen([LEDGER, url, self.database, *words], stdout=subprocess.PIPE,
                                   stderr=subprocess.STDOUT, text=True)
        self.addCleanup(end, process)
        return process

    def finish(self, process):
        said, _ = process.communicate(timeout=PATIENCE)
        self.assertEqual(process.returncode, 0, said)
        return said

    def run_to_end(self, url, *words):
        return self.finish(self.start(url, *words))

    def setup_pairs(self, pairs):
        self.run_to_end("-", "setup", str(pairs))

    def audit(self):
        """Whether the books are right, and what was said of them."""
        process = self.start("-", "audit")
        said, _ = process.communicate(timeout=PATIENCE)
        return process.returncode == 0, said

    def journal(self, of):
        return int(psql(self.database, f"select count(*) from journal where id like '{of}-%'"))


def end(process):
    process.kill()
    process.wait()
    process.stdout.close()


def wait_until_stopped(process):
    def stopped():
        with open(f"/proc/{process.pid}/stat") as stat:
            return stat.read().rpartition(")")[2].split()[0] == "T"
    wait_until(stopped, "the worker stops between its read and its write")


def wake(process):
    process.send_signal(signal.SIGCONT)
