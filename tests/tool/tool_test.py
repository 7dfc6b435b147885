"""The contract of the `holdfast` command. Usage: tool_test.py path/to/holdfast [unittest arguments]"""

import contextlib
import json
import os
import pty
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

HOLDFAST = ""
PATIENCE = 20  # seconds until a test gives up; nothing here waits that long when all is well


def wait_until(condition, what):
    end = time.monotonic() + PATIENCE
    while not (result := condition()):
        if time.monotonic() > end:
            raise AssertionError("never happened: " + what)
        time.sleep(0.01)
    return result


class ToolTest(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix="holdfast-tool-")
        self.addCleanup(shutil.rmtree, self.dir, ignore_errors=True)
        self.locks = os.path.join(self.dir, "locks")
        os.mkdir(self.locks)
        self.url = f"file:{self.locks}?ttl=300ms"  # a beat of 100 ms
        self.env = {k: v for k, v in os.environ.items() if not k.startswith(("HOLDFAST_", "XDG_"))}
        self.env["HOME"] = self.dir

    def call(self, *args, env=None, **kw):
        return subprocess.run([HOLDFAST, *args], env={**self.env, **(env or {})}, stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=PATIENCE, **kw)

    def run_command(self, *args, name="a"):
        return self.call("run", "--url", self.url, name, "--", *args)

    def start(self, *args):
        process = subprocess.Popen([HOLDFAST, *args], env=self.env, stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(self.stop, process)
        return process

    def stop(self, process):
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        process.communicate()

    def hold(self, name="a", script="echo held $$; exec sleep 60", options=()):
        """Starts a command under the lock and waits until it says so. Returns the process and the command's pid."""
        process = self.start("run", "--url", self.url, *options, name, "--", "sh", "-c", script)
        line = process.stdout.readline().split()
        self.assertEqual(line[:1], ["held"], process.stderr.read() if not line else line)
        return process, int(line[1])

    def rows(self, *names):
        listed = self.call("ls", "--url", self.url, "--json", *names)
        self.assertEqual(listed.returncode, 0, listed.stderr)
        return json.loads(listed.stdout)

    def queue(self, length, name="a"):
        wait_until(lambda: len(self.rows(name)) == length, f"{length} in line for {name}")


def read(path):
    with open(path) as file:
        return file.read()


def gone(pid):
    try:
        return read(f"/proc/{pid}/stat").rsplit(")", 1)[1].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


class Run(ToolTest):
    def test_knows_the_commands_code_also_if_its_starter_ignores_dead_children(self):
        ignoring = "import os, signal, sys; signal.signal(signal.SIGCHLD, signal.SIG_IGN); os.execv(sys.argv[1], sys.argv[1:])"
        ran = subprocess.run([sys.executable, "-c", ignoring, HOLDFAST, "run", "--url", self.url, "a", "--", "sh", "-c",
                              "sleep 0.1; exit 3"], env=self.env, stdin=subprocess.DEVNULL, timeout=PATIENCE)
        self.assertEqual(ran.returncode, 3)

    def test_exits_with_the_commands_own_code(self):
        self.assertEqual(self.run_command("true").returncode, 0)
        self.assertEqual(self.run_command("sh", "-c", "exit 42").returncode, 42)

    def test_exits_with_128_and_the_signal_that_ended_the_command(self):
        self.assertEqual(self.run_command("sh", "-c", "kill -9 $$").returncode, 128 + signal.SIGKILL)

    def test_exits_like_a_shell_when_the_command_cannot_be_started(self):
        self.assertEqual(self.run_command("no-such-command").returncode, 127)
        self.assertEqual(self.run_command(self.dir).returncode, 126)
        self.assertEqual(self.rows(), [])

    def test_passes_on_words_that_look_like_its_own(self):
        printed = self.run_command("echo", "ls", "--", "--wait", "[a,b]", "-h", "")
        self.assertEqual(printed.stdout, "ls -- --wait [a,b] -h \n")

    def test_tells_the_command_its_lock_and_fence(self):
        printed = self.run_command("sh", "-c", "echo $HOLDFAST_LOCK $HOLDFAST_FENCE_EPOCH; holdfast_=$HOLDFAST_FENCE;"
                                   "expr $holdfast_ + 0; echo $HOLDFAST_SEQUENCER", name="orders/42")
        where, fence, sequencer = printed.stdout.splitlines()
        self.assertEqual(where, "orders/42 0")
        self.assertGreater(int(fence), 0)
        self.assertTrue(sequencer.startswith("hf1:"), sequencer)

    def test_replaces_settings_of_an_outer_lock(self):
        inner = [HOLDFAST, "run", "--url", self.url, "inner", "--", "env"]
        printed = self.call("run", "--url", self.url, "outer", "--", *inner).stdout.splitlines()
        self.assertEqual([line for line in printed if line.startswith("HOLDFAST_LOCK=")], ["HOLDFAST_LOCK=inner"])

    def test_each_grant_has_a_higher_fence(self):
        first, second = (int(self.run_command("sh", "-c", "echo $HOLDFAST_FENCE").stdout) for _ in range(2))
        self.assertGreater(second, first)

    def test_gives_the_command_no_descriptor_of_its_own(self):
        listing = "import os; print([fd for fd in map(int, os.listdir('/proc/self/fd')) if os.path.exists(f'/proc/self/fd/{fd}')])"
        self.assertEqual(self.run_command(sys.executable, "-c", listing).stdout, "[0, 1, 2]\n")

    def test_restores_the_signal_mask(self):
        printed = self.run_command("grep", "-E", "Sig(Blk|Ign)", "/proc/self/status").stdout
        self.assertEqual(set(line.split()[1] for line in printed.splitlines()), {"0" * 16})


class Busy(ToolTest):
    def test_exits_with_75_when_it_is_taken(self):
        self.hold()
        for wait in ("0s", "200ms"):
            with self.subTest(wait=wait):
                begin = time.monotonic()
                late = self.call("run", "--url", self.url, "--wait", wait, "a", "--", "echo", "ran")
                self.assertEqual((late.returncode, late.stdout), (75, ""))
                self.assertGreaterEqual(time.monotonic() - begin, 0.2 if wait == "200ms" else 0)

    def test_waits_as_long_as_it_takes(self):
        holder, command = self.hold()
        waiter = self.start("run", "--url", self.url, "a", "--", "echo", "mine")
        self.queue(2)
        os.kill(command, signal.SIGTERM)
        self.assertEqual(waiter.communicate(timeout=PATIENCE)[0], "mine\n")
        self.assertEqual(holder.wait(PATIENCE), 128 + signal.SIGTERM)

    def test_a_signal_ends_the_wait_and_leaves_nothing_behind(self):
        self.hold()
        for number in (signal.SIGTERM, signal.SIGINT):
            with self.subTest(number=number):
                waiter = self.start("run", "--url", self.url, "a", "--", "echo", "ran")
                self.queue(2)
                waiter.send_signal(number)
                self.assertEqual(waiter.communicate(timeout=PATIENCE)[0], "")
                self.assertEqual(waiter.returncode, 128 + number)
                self.queue(1)

    def test_another_name_is_free(self):
        self.hold()
        self.assertEqual(self.run_command("true", name="b").returncode, 0)


class Signals(ToolTest):
    def test_are_forwarded_to_the_command(self):
        for name in ("TERM", "INT", "HUP", "QUIT", "USR1", "USR2"):
            with self.subTest(name=name):
                script = f"trap 'echo got; exit 7' {name}; echo held $$; while :; do sleep 0.05; done"
                holder, _ = self.hold(script=script)
                holder.send_signal(getattr(signal, "SIG" + name))
                out, err = holder.communicate(timeout=PATIENCE)
                self.assertEqual((holder.returncode, out), (7, "got\n"), err)

    def test_reach_what_the_command_started(self):
        holder, pid = self.hold(script="sleep 60 & echo held $!; wait")
        holder.send_signal(signal.SIGTERM)
        self.assertEqual(holder.wait(PATIENCE), 128 + signal.SIGTERM)
        wait_until(lambda: gone(pid), "the end of the grandchild")

    def test_ignored_from_the_start_stay_ignored(self):
        script = 'trap "" HUP; exec "$0" run --url "$1" a -- sh -c "echo held; kill -HUP \\$PPID; kill -HUP \\$\\$; echo still"'
        printed = subprocess.run(["sh", "-c", script, HOLDFAST, self.url], env=self.env, capture_output=True, text=True,
                                 stdin=subprocess.DEVNULL, timeout=PATIENCE)
        self.assertEqual((printed.returncode, printed.stdout), (0, "held\nstill\n"), printed.stderr)


    def test_of_the_terminal_reach_the_command_once(self):
        log = os.path.join(self.dir, "log")
        script = f"trap 'echo INT >> {log}' INT; echo held; while [ ! -e {log}.end ]; do sleep 0.05; done"
        pid, terminal = pty.fork()
        if pid == 0:
            os.execve(HOLDFAST, [HOLDFAST, "run", "--url", self.url, "a", "--", "sh", "-c", script], self.env)
        self.addCleanup(os.close, terminal)
        with open(terminal, "rb", buffering=0, closefd=False) as screen:
            self.assertEqual(screen.readline(), b"held\r\n")
        os.write(terminal, b"\x03")
        wait_until(lambda: os.path.exists(log), "Ctrl-C")
        os.kill(pid, signal.SIGINT)  # from elsewhere: this one is ours to forward
        wait_until(lambda: read(log).count("INT") == 2, "a forwarded INT")
        open(log + ".end", "w").close()
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), 0)
        self.assertEqual(read(log), "INT\nINT\n")


class Crash(ToolTest):
    def test_of_the_holder_ends_its_command_and_hands_over_at_once(self):
        holder, command = self.hold()
        waiter = self.start("run", "--url", self.url, "a", "--", "echo", "mine")
        self.queue(2)
        begin = time.monotonic()
        holder.kill()
        self.assertEqual(waiter.communicate(timeout=PATIENCE)[0], "mine\n")
        self.assertLess(time.monotonic() - begin, 5)
        wait_until(lambda: gone(command), "the end of the orphaned command")


class Lost(ToolTest):
    def test_stops_the_command_and_exits_with_76(self):
        holder, command = self.hold(script="trap '' TERM; echo held $$; while :; do sleep 0.05; done")
        shutil.rmtree(self.locks, ignore_errors=True)
        _, err = holder.communicate(timeout=PATIENCE)
        self.assertEqual(holder.returncode, 76, err)
        self.assertIn("lost", err)
        self.assertTrue(gone(command))

    def test_stops_what_the_command_started(self):
        holder, pid = self.hold(script="sleep 60 & echo held $!; wait")
        shutil.rmtree(self.locks, ignore_errors=True)
        self.assertEqual(holder.wait(PATIENCE), 76)
        wait_until(lambda: gone(pid), "the end of the grandchild")


    def test_by_a_pause_beyond_the_ttl_exits_with_76(self):
        self.url = "memory:x?ttl=600ms"
        holder, command = self.hold()
        holder.send_signal(signal.SIGSTOP)
        time.sleep(1)  # what is tested is the passing of time itself
        holder.send_signal(signal.SIGCONT)
        _, err = holder.communicate(timeout=PATIENCE)
        self.assertEqual(holder.returncode, 76, err)
        self.assertTrue(gone(command))

    def test_asks_the_command_to_stop_while_the_grace_still_fits(self):
        # Such clocks leave 1.5 s of 3 s, and half a second at each renewal: less than the grace, so that it comes to TERM.
        self.url = "memory:x?ttl=3s&drift=50%25"
        script = "trap 'echo winding up; exit 0' TERM; echo held $$; while :; do sleep 0.05; done"
        holder, _ = self.hold(script=script, options=["--grace", "1s"])
        out, err = holder.communicate(timeout=PATIENCE)
        self.assertEqual((holder.returncode, out), (76, "winding up\n"), err)

    def test_grace_must_fit_the_ttl(self):
        late = self.call("run", "--url", "memory:x?ttl=3s", "--grace", "2s", "a", "--", "echo", "ran")
        self.assertEqual((late.returncode, late.stdout), (64, ""))
        self.assertIn("--grace 2s does not fit a ttl of 3s", late.stderr)
        for drift in ("1%25", "50%25"):
            kept = self.call("run", "--url", "memory:x?ttl=3s&drift=" + drift, "a", "--", "sleep", "1.5")
            self.assertEqual((kept.returncode, kept.stderr), (0, ""), drift)


class Usage(ToolTest):
    def refused(self, *args, says, code=64, env=None):
        with self.subTest(args=args):
            result = self.call(*args, env=env)
            self.assertEqual((result.returncode, result.stdout), (code, ""), result.stderr)
            self.assertIn(says, result.stderr)

    def test_mistakes_exit_with_64_and_say_why(self):
        url = ["--url", self.url]
        self.refused(says="subcommand")
        self.refused("frobnicate", says="")
        self.refused("run", *url, "a", says="no command")
        self.refused("run", *url, "a", "--", says="no command")
        self.refused("run", *url, "--", "true", says="NAME")
        self.refused("run", *url, "", "--", "true", says="")
        self.refused("run", *url, "a" * 201, "--", "true", says="name")
        self.refused("run", "--url", "gopher://x/y", "a", "--", "true", says="gopher")
        self.refused("run", "--url", self.url + "&colour=red", "a", "--", "true", says="colour")
        self.refused("run", *url, "--local", "a", "--", "true", says="--local")
        self.refused("ls", *url, "--", "true", says="--")
        self.refused("check", *url, "hf1:nonsense", says="sequencer")
        self.refused("check", *url, says="SEQUENCER")
        self.refused("run", "a", "--", "true", says="URL is empty", env={"HOLDFAST_URL": ""})

    def test_bad_durations_exit_with_64(self):
        for text in ("10", "s", "-1s", "1.5s", "10 s", "10d", "", "99999999999999999999s"):
            self.refused("run", "--url", self.url, "--wait=" + text, "a", "--", "true", says="--wait")
        self.refused("run", "--url", self.url, "--grace", "soon", "a", "--", "true", says="'soon' is not a duration")

    def test_help_teaches_by_example(self):
        for args in (["--help"], ["run", "--help"]):
            shown = self.call(*args)
            self.assertEqual((shown.returncode, shown.stderr), (0, ""))
            self.assertRegex(shown.stdout, r"\* \* \*  holdfast run .*--(once|wait 0s)")
        self.assertIn("-- CMD...", self.call("run", "--help").stdout)


class Once(ToolTest):
    """`run --once KEY`; cluster_test.py runs these beside a cluster as well."""

    def once(self, key, *command, **kw):
        return self.call("run", "--url", self.url, "--label", "host-1", "--once", key, "a", "--", *command, **kw)

    def test_runs_the_command_once_and_tells_whoever_comes_later_who_did_it(self):
        first = self.once("k/1", "echo", "done")
        self.assertEqual((first.returncode, first.stdout, first.stderr), (0, "done\n", ""))
        second = self.once("k/1", "echo", "done")
        self.assertEqual((second.returncode, second.stdout), (0, ""), second.stderr)
        self.assertRegex(second.stderr, r"^holdfast: k/1 was done at \d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC by host-1 "
                                        r"\(fence 0\.\d+\)\n$")
        self.assertEqual(self.once("k/2", "echo", "done").stdout, "done\n")
        self.assertEqual(self.call("run", "--url", self.url, "a", "--", "echo", "done").stdout, "done\n")

    def test_a_command_that_failed_is_run_by_the_next(self):
        self.assertEqual(self.once("k", "sh", "-c", "exit 3").returncode, 3)
        self.assertEqual(self.once("k", "no-such-command").returncode, 127)
        self.assertEqual(self.once("k", "sh", "-c", "kill -9 $$").returncode, 128 + signal.SIGKILL)
        self.assertEqual(self.once("k", "echo", "done").stdout, "done\n")

    def test_those_who_wait_in_line_find_it_done(self):
        log = os.path.join(self.dir, "log")
        script = f"echo ran >> {log}; sleep 0.3"
        hosts = [self.start("run", "--url", self.url, "--once", "k", "a", "--", "sh", "-c", script) for _ in range(5)]
        for host in hosts:
            self.assertEqual(host.wait(PATIENCE), 0)
        self.assertEqual(read(log), "ran\n")

    def test_what_was_done_is_told_while_the_lock_is_taken(self):
        self.once("k", "true")
        self.hold()
        self.assertEqual(self.once("k", "false").returncode, 0)

    def test_a_holder_that_is_killed_has_recorded_nothing(self):
        holder, _ = self.hold(options=("--once", "k"))
        holder.kill()
        holder.wait(PATIENCE)
        self.assertEqual(self.once("k", "echo", "done").stdout, "done\n")

    def test_an_empty_key_is_a_mistake(self):
        self.assertEqual(self.once("", "true").returncode, 64)


class WhichPlace(ToolTest):
    NOTE = ("holdfast: no --url and no HOLDFAST_URL: this lock holds on this host only "
            "(--local says it is meant)\n")

    def test_without_a_url_is_this_host_and_says_so_each_time(self):
        for _ in range(2):
            result = self.call("run", "a", "--", "true")
            self.assertEqual((result.returncode, result.stderr), (0, self.NOTE))
        self.assertTrue(os.path.isdir(os.path.join(self.dir, ".local/state/holdfast")))

    def test_local_is_silent_and_follows_xdg(self):
        state = os.path.join(self.dir, "an?odd%20place")
        result = self.call("run", "--local", "a", "--", "true", env={"XDG_STATE_HOME": state})
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        self.assertTrue(os.path.isdir(os.path.join(state, "holdfast")))

    def test_the_environment_names_it(self):
        self.hold()
        result = self.call("run", "--wait", "0s", "a", "--", "true", env={"HOLDFAST_URL": self.url})
        self.assertEqual(result.returncode, 75, result.stderr)

    def test_without_a_home_asks_for_a_url(self):
        self.assertEqual(self.call("ls", "--local", env={"HOME": ""}).returncode, 64)


class Ls(ToolTest):
    def test_shows_holder_and_waiters_in_order(self):
        self.hold(options=["--label", "first"])
        for position, label in enumerate(("second", "third"), 2):
            self.start("run", "--url", self.url, "--label", label, "a", "--", "true")
            self.queue(position)
        lines = [line.split("\t") for line in self.call("ls", "--url", self.url).stdout.splitlines()]
        self.assertEqual([line[:3] for line in lines],
                         [["a", "holder", "first"], ["a", "waiter 1", "second"], ["a", "waiter 2", "third"]])
        for line in lines:
            self.assertRegex(line[3], r"^0\.\d+$")
            self.assertRegex(line[4], r"^(\d+(ms|s|m|h)|-)$")

    def test_of_nobody_is_empty(self):
        self.assertEqual(self.call("ls", "--url", self.url).stdout, "")
        self.assertEqual(self.rows(), [])

    def test_names_select(self):
        self.hold("a")
        self.hold("b")
        self.assertEqual([row["name"] for row in self.rows()], ["a", "b"])
        self.assertEqual([row["name"] for row in self.rows("b", "c")], ["b"])

    def test_json_keeps_every_character(self):
        name, label = 'a "b"\\c\n\u00e9\U0001f512', 'tab\there "quoted"'
        self.hold(name, options=["--label", label])
        row, = self.rows()
        self.assertEqual((row["name"], row["label"], row["role"], row["position"]), (name, label, "holder", 0))
        listed = self.call("ls", "--url", self.url).stdout
        self.assertEqual(listed.count("\n"), 1)
        self.assertEqual(listed.count("\t"), 4)


class Check(ToolTest):
    def test_tells_current_from_stale(self):
        path = os.path.join(self.dir, "sequencer")
        holder, _ = self.hold(script=f"echo $HOLDFAST_SEQUENCER > {path}; echo held $$; exec sleep 60")
        sequencer = read(path).strip()
        current = self.call("check", "--url", self.url, sequencer)
        self.assertEqual((current.returncode, current.stdout), (0, "current\n"), current.stderr)
        holder.terminate()
        holder.wait(PATIENCE)
        stale = self.call("check", "--url", self.url, sequencer)
        self.assertEqual((stale.returncode, stale.stdout), (1, "stale\n"), stale.stderr)

    def test_of_another_place_is_a_mistake(self):
        sequencer = self.run_command("sh", "-c", "echo $HOLDFAST_SEQUENCER").stdout.strip()
        self.assertEqual(self.call("check", "--local", sequencer).returncode, 64)


if __name__ == "__main__":
    HOLDFAST = os.path.abspath(sys.argv.pop(1))
    unittest.main()
