"""What a leak would show in: what workers and servers use at the beginning of a fault run, and at its end."""

import asyncio
import os
import re

GROWTH_KB = 16 * 1024  # what allocators and caches may take before it counts as a leak


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
            self.servers.setdefault(number, {})[when] = await self.cluster.service.figures(member)

    def found(self):
        """Every leak, as a sentence."""
        for name, figures in self.workers.items():
            before, after = figures["before"], figures["after"]
            for what in ("threads", "descriptors"):
                if after[what] > before[what]:
                    yield f"{name} had {before[what]} {what} at the beginning and {after[what]} at the end"
            if after["memory_kb"] > before["memory_kb"] + GROWTH_KB:
                yield f"{name} grew from {before['memory_kb']} KB to {after['memory_kb']} KB"
        for number, figures in self.servers.items():
            for what, count in figures["left"].items():
                if count > figures["empty"][what]:
                    yield f"member {number} had {figures['empty'][what]} {what} before the run and {count} after it"
