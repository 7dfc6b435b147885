"""What a leak would show in: what workers and servers use at the beginning of a fault run, and at its end."""

import asyncio
import contextlib
import os
import re

# What allocators take, and gRPC keeps for its next connection; its threads have been seen to grow by 4 in ten minutes,
# and descriptors by 5. A leak with every fault or every grant is beyond it.
GROWTH = {"memory_kb": 16 * 1024, "threads": 8, "descriptors": 8}


def used(pid):
    with open(f"/proc/{pid}/status") as status:
        text = status.read()
    return {"memory_kb": int(re.search(r"VmRSS:\s+(\d+)", text)[1]),
            "threads": int(re.search(r"Threads:\s+(\d+)", text)[1]),
            "descriptors": len(os.listdir(f"/proc/{pid}/fd"))}


async def least_used(pid):
    """The least in a second of looking: what a write or a reconnection needs for a moment is given back."""
    seen = []
    for _ in range(20):
        seen.append(used(pid))
        await asyncio.sleep(0.05)
    return {figure: min(each[figure] for each in seen) for figure in seen[0]}


class Leaks:
    def __init__(self, cluster):
        self.cluster = cluster
        self.workers = {}  # name: {"before": figures, "after": figures}
        self.servers = {}  # number: {"empty": figures, "busy": figures, "left": figures}

    async def measure_workers(self, when, pids):
        """Of the workers that are there from the beginning to the end."""
        for name, figures in zip(pids, await asyncio.gather(*map(least_used, pids.values()))):
            self.workers.setdefault(name, {})[when] = figures

    async def measure_servers(self, when):
        for number, member in self.cluster.members.items():
            self.servers.setdefault(number, {})[when] = await self.figures(member)

    async def figures(self, member):
        async with asyncio.timeout(60):
            while True:
                with contextlib.suppress(OSError, ValueError, KeyError):  # it does not serve just now
                    return await self.cluster.service.figures(member)
                await asyncio.sleep(0.1)

    def found(self):
        """Every leak, as a sentence."""
        for name, figures in self.workers.items():
            for what, allowed in GROWTH.items():
                before, after = figures["before"][what], figures["after"][what]
                if after > before + allowed:
                    yield f"{name} had {before} {what} at the beginning and {after} at the end"
        for number, figures in self.servers.items():
            for what, count in figures["left"].items():
                if count > figures["empty"][what]:
                    yield f"member {number} had {figures['empty'][what]} {what} before the run and {count} after it"
