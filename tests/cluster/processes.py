"""Members as processes on loopback, with data on a memory file system: see members.py for what a driver is.

A service tells this driver
    ports                    how many listening ports a member has; the first one is for clients, the others for peers
    configure(members, links) is called once all ports are known
    command(member)          the argument list that runs a member
"""

import ctypes
import os
import signal
import socket
import subprocess

from links import Links

PR_SET_PDEATHSIG = 1
libc = ctypes.CDLL(None, use_errno=True)


def die_with_parent():
    """In a child: should this program be killed, its children are as well."""
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def free_ports(count):
    """Different ones: each is held until all are found."""
    probes = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [probe.getsockname()[1] for probe in probes]
    for probe in probes:
        probe.close()
    return ports


class Process:
    def __init__(self, driver, number, ports):
        self.driver = driver
        self.number = number
        self.directory = f"{driver.directory}/{number}"
        os.mkdir(self.directory)
        self.ports = ports  # where it listens itself
        self.peer_ports = []  # where its peers reach it: the links to its ports, from the second one on
        self.process = None

    @property
    def address(self):
        return f"127.0.0.1:{self.ports[0]}"

    @property
    def running(self):
        if self.process and self.process.poll() is not None:
            return None
        return self.process is not None

    def log(self):
        return f"{self.directory}/log"

    async def start(self):
        if self.process:
            return
        with open(self.log(), "ab") as log:
            self.process = subprocess.Popen(self.driver.service.command(self), cwd=self.directory,
                                            stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                            preexec_fn=die_with_parent, start_new_session=True)

    async def kill(self):
        self.end()

    def end(self):
        if self.process:
            self.process.kill()
            self.process.wait()
            self.process = None

    async def pause(self):
        self.process.send_signal(signal.SIGSTOP)

    async def resume(self):
        if self.process:
            self.process.send_signal(signal.SIGCONT)

    async def cut(self):
        await self.driver.links.set_cut(self.number, True)

    async def heal(self):
        await self.driver.links.set_cut(self.number, False)


class Driver:
    def __init__(self, service, count, directory):
        self.service = service
        self.directory = directory
        ports = free_ports(count * service.ports)
        self.members = {number: Process(self, number, ports[(number - 1) * service.ports:number * service.ports])
                        for number in range(1, count + 1)}
        self.links = None

    async def start(self):
        self.links = Links(lambda: {m.process.pid: m.number for m in self.members.values() if m.process})
        for member in self.members.values():
            for port in member.ports[1:]:
                member.peer_ports.append(await self.links.listen(member.number, port))
        self.service.configure(self.members, self.links)
        for member in self.members.values():
            await member.start()

    def close(self):
        if self.links:
            self.links.close()
        for member in self.members.values():
            member.end()
