"""The ways by which workers reach the members: one gate per member, which passes bytes on, or late, or not at all."""

import asyncio
import contextlib


class Gates:
    def __init__(self):
        self.servers = {}
        self.delay = {}  # member: seconds
        self.open = {}  # member: an event
        self.connections = {}  # member: writers

    @property
    def addresses(self):
        return ",".join(f"127.0.0.1:{server.sockets[0].getsockname()[1]}" for server in self.servers.values())

    async def listen(self, number, address):
        self.delay[number] = 0
        self.open[number] = asyncio.Event()
        self.open[number].set()
        self.connections[number] = set()

        async def serve(reader, writer):
            with contextlib.suppress(OSError):
                far_reader, far_writer = await asyncio.open_connection(*address.split(":"))
                ends = {writer, far_writer}
                self.connections[number] |= ends
                pumps = [asyncio.create_task(self.pump(number, reader, far_writer)),
                         asyncio.create_task(self.pump(number, far_reader, writer))]
                await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
                for pump in pumps:
                    pump.cancel()
                await asyncio.gather(*pumps, return_exceptions=True)
                self.connections[number] -= ends
                far_writer.close()
            writer.close()

        self.servers[number] = await asyncio.start_server(serve, "127.0.0.1", 0)

    async def pump(self, number, reader, writer):
        while data := await reader.read(65536):
            await asyncio.sleep(self.delay[number])
            await self.open[number].wait()
            writer.write(data)
            await writer.drain()

    def break_all(self, number):
        for writer in self.connections[number]:
            writer.transport.abort()

    def hold(self, number):
        self.open[number].clear()

    def let_go(self, number):
        self.open[number].set()

    def heal(self):
        for number in self.servers:
            self.delay[number] = 0
            self.let_go(number)
