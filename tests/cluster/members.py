"""A cluster of real servers, and the commands tests give it, whatever its members run as.

A driver (processes.py, containers.py) is a class made of a service and a number of members, with
    members                  {number: member}, each with
        address              where clients reach it
        running              whether it was started and not killed; an ended one is None
        log()                the path of a file with what it has printed
        async start(), kill(), pause(), resume()
        async cut(), heal()  from and to the other members; clients still reach it
    async start()            starts them all; they need not serve yet
    close()                  removes everything
and a service (zk.py, etcd.py) one with
    name                     the scheme of its URLs
    async ready(member)      whether a member takes part and serves clients
    async leads(member)      whether it is the leader
    async version(member)    of the server
    async survives_long_pauses(member)  whether holds are safe if a leader is paused for longer than a TTL
    async figures(member)    how many watches and entries of clients it has: {"watches": n, "entries": n}
and what the drivers need to run it.
"""

import asyncio
import contextlib
import os
import shutil
import tempfile


class Cluster:
    """Members and the socket at which commands are taken, line by line:
    kill|start|pause|resume|cut|heal N|all, and leader, ready, address N, log N. Each is answered by one line: what
    was asked for, `ok` once it is done, or `error: ...`. `start` and `ready` wait for all running members to serve."""

    def __init__(self, driver, service, count, durable=None):
        base = durable or ("/dev/shm" if os.path.isdir("/dev/shm") else tempfile.gettempdir())
        remove_stale(base)
        self.directory = tempfile.mkdtemp(prefix=f"holdfast-cluster-{os.getpid()}-", dir=base)
        self.service = service
        self.service.durable = bool(durable)
        self.driver = driver(service, count, self.directory)
        self.members = self.driver.members
        self.control = None

    @property
    def url(self):
        return f"{self.service.name}://" + ",".join(m.address for m in self.members.values())

    async def start(self):
        await self.driver.start()
        self.control = await asyncio.start_unix_server(self.serve, f"{self.directory}/control")
        await self.ready()

    async def ready(self, patience=120):
        async with asyncio.timeout(patience):
            for member in self.members.values():
                while member.running and not await self.service.ready(member):
                    await asyncio.sleep(0.05)
                if member.running is None:
                    raise RuntimeError(f"member {member.number} ended by itself:\n{tail(member)}")

    async def leader(self):
        async with asyncio.timeout(60):
            while True:
                for member in self.members.values():
                    if member.running and await self.service.leads(member):
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
                return members[0].log()
            case "ready":
                await self.ready()
            case "start":
                await asyncio.gather(*(member.start() for member in members))
                await self.ready()
            case "kill" | "pause" | "resume" | "cut" | "heal":
                await asyncio.gather(*(getattr(member, verb)() for member in members))
            case _:
                raise ValueError(f"unknown command {verb}")
        return "ok"

    def close(self):
        if self.control:
            self.control.close()
        self.driver.close()
        shutil.rmtree(self.directory, ignore_errors=True)


def tail(member):
    with open(member.log(), errors="replace") as log:
        return "".join(log.readlines()[-15:])


def remove_stale(base):
    """What a run that was itself killed left behind: its members died with it, its directory did not."""
    for name in os.listdir(base):
        if name.startswith("holdfast-cluster-") and not os.path.exists(f"/proc/{name.split('-')[2]}"):
            shutil.rmtree(f"{base}/{name}", ignore_errors=True)
