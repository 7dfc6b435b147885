"""The links between the members of a cluster: every connection from one member to another runs through here.

Each address at which members expect a peer is a listener of ours. Who is calling is read from the kernel (whose socket
is it?), so that all members can be told the same addresses, as some services demand. A member that is cut off keeps its
connections, but nothing flows, in either direction, as on a broken network; healing lets it flow again. None of this
needs any rights.
"""

import asyncio
import contextlib
import os


def owner_of(port, pids):
    """Which of these processes has the TCP socket with this local port; None if none of them."""
    inode = None
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        with contextlib.suppress(OSError), open(table) as lines:
            for line in lines:
                fields = line.split()
                if fields[1].endswith(f":{port:04X}") and fields[3] != "0A" and fields[9] != "0":
                    inode = fields[9]
    for pid in pids:
        with contextlib.suppress(OSError):
            for fd in os.listdir(f"/proc/{pid}/fd"):
                with contextlib.suppress(OSError):
                    if os.readlink(f"/proc/{pid}/fd/{fd}") == f"socket:[{inode}]":
                        return pid
    return None


class Links:
    """All links of one cluster. `rewrite` maps what a caller says in its first bytes to what is passed on: for
    services whose members tell each other where they listen."""

    def __init__(self, pid_to_member):
        self.pid_to_member = pid_to_member  # () -> {pid: member}
        self.cut = set()
        self.rewrite = {}
        self.changed = asyncio.Condition()
        self.servers = []
        self.tasks = set()

    async def listen(self, target, real_port):
        """Opens an address at which the others reach `target`; returns its port."""

        async def serve(reader, writer):
            task = asyncio.current_task()
            self.tasks.add(task)
            with contextlib.suppress(OSError, asyncio.CancelledError):
                await self.carry(reader, writer, target, real_port)
            writer.close()
            self.tasks.discard(task)

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        self.servers.append(server)
        return server.sockets[0].getsockname()[1]

    async def carry(self, reader, writer, target, real_port):
        pids = self.pid_to_member()
        source = pids.get(owner_of(writer.get_extra_info("peername")[1], pids))
        await self.flowing(source, target)
        far_reader, far_writer = await self.reach(real_port)
        try:
            pumps = [asyncio.create_task(self.pump(reader, far_writer, source, target, self.rewrite)),
                     asyncio.create_task(self.pump(far_reader, writer, source, target, {}))]
            _, rest = await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
            for pump in rest:
                pump.cancel()
            await asyncio.gather(*pumps, return_exceptions=True)
        finally:
            far_writer.close()

    async def reach(self, port, patience=2):
        """A caller that finds nobody tries again; ours has already been answered, so this is done for it. (A ZooKeeper
        follower can be earlier than its leader; told so by a broken connection, it loses ten seconds.)"""
        for _ in range(patience * 50):
            with contextlib.suppress(ConnectionRefusedError):
                return await asyncio.open_connection("127.0.0.1", port)
            await asyncio.sleep(0.02)
        raise ConnectionRefusedError

    async def pump(self, reader, writer, source, target, rewrite):
        first = True
        while data := await reader.read(65536):
            if first:
                for old, new in rewrite.items():
                    data = data.replace(old, new)
                first = False
            await self.flowing(source, target)
            writer.write(data)
            await writer.drain()
        await self.flowing(source, target)  # the end of a connection does not get through a cut either

    async def flowing(self, *members):
        async with self.changed:
            await self.changed.wait_for(lambda: not self.cut.intersection(members))

    async def set_cut(self, member, cut):
        async with self.changed:
            (self.cut.add if cut else self.cut.discard)(member)
            self.changed.notify_all()

    def close(self):
        for server in self.servers:
            server.close()
        for task in self.tasks:
            task.cancel()
