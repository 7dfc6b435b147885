"""A cluster of real servers as processes on loopback, which leaves nothing behind, and the commands tests give it.

A service (zk.py, etcd.py) is a class with
    name                     the scheme of its URLs
    ports                    how many listening ports a member has; the first one is for clients, the others for peers
    configure(cluster)       is called once all ports are known
    command(member)          the argument list that runs a member
    async ready(member)      whether a member takes part and serves clients
    async leads(member)      whether it is the leader
"""

import asyncio
import contextlib
import ctypes
import os
import shutil
import signal
import socket
import subprocess
import tempfile

from links import Links

PR_SET_PDEATHSIG = 1
libc = ctypes.CDLL(None, use_errno=True)


def die_with_parent():
    """In a child: should this program be killed, its children are as well."""
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Member:
    def __init__(self, number, directory, ports):
        self.number = number
        self.directory = directory
        self.ports = ports  # where it listens itself
        self.peer_ports = []  # where its peers reach it: the links to its ports, from the second one on
        self.process = None

    @property
    def address(self):
        return f"127.0.0.1:{self.ports[0]}"

    def start(self, command):
        if self.process:
            return
        with open(f"{self.directory}/log", "ab") as log:
            self.process = subprocess.Popen(command, cwd=self.directory, stdin=subprocess.DEVNULL, stdout=log,
                                            stderr=log, preexec_fn=die_with_parent, start_new_session=True)

    def signal(self, number):
        if self.process:
            self.process.send_signal(number)

    def kill(self):
        if self.process:
            self.process.kill()
            self.process.wait()
            self.process = None


class Cluster:
    """Members, the links between them and the socket at which commands are taken, line by line:
    kill|start|pause|resume|cut|heal N|all, and leader, ready, address N, log N. Each is answered by one line: what
    was asked for, `ok` once it is done, or `error: ...`. `start` and `ready` wait for all running members to serve."""

    def __init__(self, service, count):
        self.service = service
        base = "/dev/shm" if os.path.isdir("/dev/shm") else tempfile.gettempdir()
        remove_stale(base)
        self.directory = tempfile.mkdtemp(prefix=f"holdfast-cluster-{os.getpid()}-", dir=base)
        self.members = {}
        for number in range(1, count + 1):
            os.mkdir(f"{self.directory}/{number}")
            self.members[number] = Member(number, f"{self.directory}/{number}",
                                          [free_port() for _ in range(service.ports)])
        self.control = None

    @property
    def url(self):
        return f"{self.service.name}://" + ",".join(m.address for m in self.members.values())

    async def start(self):
        self.links = Links(lambda: {m.process.pid: m.number for m in self.members.values() if m.process})
        for member in self.members.values():
            for port in member.ports[1:]:
                member.peer_ports.append(await self.links.listen(member.number, port))
        self.service.configure(self)
        self.control = await asyncio.start_unix_server(self.serve, f"{self.directory}/control")
        for member in self.members.values():
            member.start(self.service.command(member))
        await self.ready()

    async def ready(self, patience=60):
        async with asyncio.timeout(patience):
            for member in self.members.values():
                while member.process and not await self.service.ready(member):
                    if member.process.poll() is not None:
                        raise RuntimeError(f"member {member.number} ended by itself:\n{tail(member)}")
                    await asyncio.sleep(0.05)

    async def leader(self):
        async with asyncio.timeout(60):
            while True:
                for member in self.members.values():
                    if member.process and await self.service.leads(member):
                        return member.number
                await asyncio.sleep(0.05)

    async def serve(self, reader, writer):
        with contextlib.suppress(ConnectionError):
            while line := (await reader.readline()).decode():
                try:
                    answer = await self.obey(*line.split())
                except Exception as error:  # pylint: disable=broad-except
                    answer = f"error: {type(error).__name__} {error}".replace("\n", " ")
                writer.write(f"{answer}\n".encode())
                await writer.drain()
        writer.close()

    async def obey(self, verb, which="all"):
        members = list(self.members.values()) if which == "all" else [self.members[int(which)]]
        match verb:
            case "leader":
                return await self.leader()
            case "address":
                return ",".join(member.address for member in members)
            case "log":
                return f"{members[0].directory}/log"
            case "ready":
                await self.ready()
            case "start":
                for member in members:
                    member.start(self.service.command(member))
                await self.ready()
            case "kill":
                for member in members:
                    member.kill()
            case "pause" | "resume":
                for member in members:
                    member.signal(signal.SIGSTOP if verb == "pause" else signal.SIGCONT)
            case "cut" | "heal":
                for member in members:
                    await self.links.set_cut(member.number, verb == "cut")
            case _:
                raise ValueError(f"unknown command {verb}")
        return "ok"

    def close(self):
        if self.control:
            self.control.close()
            self.links.close()
        for member in self.members.values():
            member.kill()
        shutil.rmtree(self.directory, ignore_errors=True)


def tail(member):
    with open(f"{member.directory}/log", errors="replace") as log:
        return "".join(log.readlines()[-15:])


def remove_stale(base):
    """What a run that was itself killed left behind: its members died with it, its directory did not."""
    for name in os.listdir(base):
        if name.startswith("holdfast-cluster-") and not os.path.exists(f"/proc/{name.split('-')[2]}"):
            shutil.rmtree(f"{base}/{name}", ignore_errors=True)
