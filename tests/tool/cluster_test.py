"""The `holdfast` command on a real cluster, beside which this runs (tests/cluster). Usage: cluster_test.py path/to/holdfast"""

import os
import socket
import subprocess
import sys
import time
import unittest

HOLDFAST = ""
PATIENCE = 60


def order(command):
    """Has the cluster do something: see tests/cluster/members.py."""
    with socket.socket(socket.AF_UNIX) as control:
        control.connect(os.environ["HOLDFAST_TEST_CONTROL"])
        control.sendall(f"{command}\n".encode())
        answer = control.makefile().readline().strip()
    assert answer == "ok", f"{command}: {answer}"


class OnACluster(unittest.TestCase):
    def setUp(self):
        self.root = f"{os.environ['HOLDFAST_TEST_URL']}/tool-{os.getpid()}-{self._testMethodName}"
        self.addCleanup(order, "resume all")

    def call(self, *args):
        return subprocess.run([HOLDFAST, *args], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              timeout=PATIENCE)

    def test_runs_a_command_under_the_lock_with_growing_fences(self):
        fences = []
        for _ in range(3):
            ran = self.call("run", "--url", self.root, "a", "--", "sh", "-c", "echo $HOLDFAST_FENCE; exit 3")
            self.assertEqual(ran.returncode, 3, ran.stderr)
            fences.append(int(ran.stdout))
        self.assertEqual(fences, sorted(set(fences)))

    def test_does_not_get_a_lock_that_is_held(self):
        inner = [HOLDFAST, "run", "--url", self.root, "--wait", "200ms", "a", "--", "true"]
        self.assertEqual(self.call("run", "--url", self.root, "a", "--", *inner).returncode, 75)

    def test_says_so_when_no_server_answers(self):
        scheme = self.root.split(":")[0]
        ran = self.call("run", "--url", f"{scheme}://127.0.0.1:1,127.0.0.1:2/app?connect_timeout=1s", "a", "--", "true")
        self.assertEqual(ran.returncode, 69, ran.stderr)
        self.assertIn("127.0.0.1:1", ran.stderr)

    def test_stops_the_command_when_the_lease_is_lost(self):
        holder = subprocess.Popen([HOLDFAST, "run", "--url", f"{self.root}?ttl=3s", "--grace", "500ms", "a", "--", "sh",
                                   "-c", "echo held $$; exec sleep 60"], stdin=subprocess.DEVNULL,
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        pid = int(holder.stdout.readline().split()[1])
        order("pause all")
        begun = time.monotonic()
        while os.path.exists(f"/proc/{pid}") and time.monotonic() < begun + PATIENCE:
            time.sleep(0.01)
        self.assertLess(time.monotonic() - begun, 4, "the command never outlives the proven hold")
        _, said = holder.communicate(timeout=PATIENCE)
        self.assertEqual(holder.returncode, 76, said)
        order("resume all")
        order("ready")
        self.assertEqual(self.call("run", "--url", self.root, "a", "--", "true").returncode, 0)


if __name__ == "__main__":
    HOLDFAST = os.path.abspath(sys.argv.pop(1))
    unittest.main()
