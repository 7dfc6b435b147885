"""The `holdfast` command beside a real cluster (tests/cluster). Usage: cluster_test.py path/to/holdfast"""

import os
import signal
import socket
import sys
import time
import unittest

import tool_test
from tool_test import ToolTest, gone, wait_until


def tell(command):
    """Has something done to the members of the cluster."""
    with socket.socket(socket.AF_UNIX) as control:
        control.connect(os.environ["HOLDFAST_TEST_CONTROL"])
        control.sendall(f"{command}\n".encode())
        answer = control.makefile().readline().strip()
    if answer != "ok":
        raise AssertionError(f"{command}: {answer}")


class Beside(ToolTest):
    count = 0

    def setUp(self):
        super().setUp()
        Beside.count += 1
        self.place = f"{os.environ['HOLDFAST_TEST_URL']}/tool-{os.getpid()}-{Beside.count}"
        self.url = f"{self.place}?ttl=3s"


class OnceOnACluster(Beside, tool_test.Once):
    def test_a_lock_that_is_lost_before_the_end_is_recorded_means_76(self):
        done = f"{self.dir}/done"
        holder, command = self.hold(script=f"echo held $$; while [ ! -e {done} ]; do sleep 0.05; done",
                                    options=("--once", "k", "--grace", "100ms"))
        holder.send_signal(signal.SIGSTOP)
        wait_until(lambda: not self.rows("a"), "the end of its session")
        open(done, "w").close()
        wait_until(lambda: gone(command), "the end of the command")
        holder.send_signal(signal.SIGCONT)
        self.assertEqual(holder.wait(tool_test.PATIENCE), 76)
        self.assertEqual(self.once("k", "echo", "again").stdout, "again\n")


class OnACluster(Beside):
    def test_runs_a_command_under_the_lock_and_passes_its_code_on(self):
        ran = self.run_command("sh", "-c", "echo $HOLDFAST_LOCK $HOLDFAST_FENCE; exit 3")
        self.assertEqual(ran.returncode, 3, ran.stderr)
        name, first = ran.stdout.split()
        self.assertEqual(name, "a")
        again = self.run_command("sh", "-c", "echo $HOLDFAST_FENCE")
        self.assertGreater(int(again.stdout), int(first))

    def test_the_next_one_waits_its_turn(self):
        holder, command = self.hold()
        waiting = self.start("run", "--url", self.url, "a", "--", "echo", "mine")
        self.queue(2)
        busy = self.call("run", "--url", self.url, "--wait", "100ms", "a", "--", "echo", "mine")
        self.assertEqual((busy.returncode, busy.stdout), (75, ""), busy.stderr)
        os.kill(command, 15)
        self.assertEqual(waiting.communicate(timeout=tool_test.PATIENCE)[0], "mine\n")
        self.assertEqual(holder.wait(tool_test.PATIENCE), 128 + 15)

    def test_a_sequencer_is_checked(self):
        holder, command = self.hold(script="echo held $$; echo $HOLDFAST_SEQUENCER; exec sleep 60")
        sequencer = holder.stdout.readline().strip()
        self.assertEqual(self.call("check", "--url", self.url, sequencer).returncode, 0)
        os.kill(command, 15)
        holder.wait(tool_test.PATIENCE)
        self.assertNotEqual(self.call("check", "--url", self.url, sequencer).returncode, 0)

    def test_a_service_that_nobody_can_reach_is_69(self):
        scheme = self.place.split(":")[0]
        ran = self.call("run", "--url", f"{scheme}://127.0.0.1:1/x?connect_timeout=500ms", "a", "--", "echo", "never")
        self.assertEqual((ran.returncode, ran.stdout), (69, ""), ran.stderr)
        self.assertIn("127.0.0.1:1", ran.stderr)

    def test_a_lost_session_stops_the_command_with_76(self):
        holder, command = self.hold(options=("--grace", "500ms"))
        self.addCleanup(tell, "ready")
        self.addCleanup(tell, "resume all")
        begun = time.monotonic()
        tell("pause all")
        wait_until(lambda: gone(command), "the end of the command")
        self.assertLess(time.monotonic() - begun, 4, "it outlived the ttl")
        self.assertEqual(holder.wait(tool_test.PATIENCE), 76)


if __name__ == "__main__":
    tool_test.HOLDFAST = os.path.abspath(sys.argv.pop(1))
    unittest.main(verbosity=2)
