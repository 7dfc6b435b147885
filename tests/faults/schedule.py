"""What is broken in a fault run, and when: tracks of faults, each with chances of its own, so that faults meet in all
combinations. The same seed makes the same schedule, as far as the cluster's own choice of leaders allows."""

import asyncio
import random
import signal


class Schedule:
    def __init__(self, run, seed, ttl, gap):
        self.run = run
        self.cluster = run.cluster
        self.gates = run.gates
        self.seed = seed
        self.ttl = ttl
        self.gap = gap
        self.tracks = {"members": self.member_faults, "workers": self.worker_faults, "links": self.link_faults,
                       "stops": self.stop_faults}

    async def go(self, names, seconds):
        """Runs these tracks for a time. All that is broken then stays so, but for workers that are stopped."""
        chosen = [self.tracks[name] for name in names]
        tracks = [asyncio.create_task(track(random.Random(f"{self.seed} {track.__name__}"))) for track in chosen]
        try:
            await asyncio.wait(tracks, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
            for track in tracks:
                if track.done():
                    track.result()  # a track only ends by an error
        finally:
            for track in tracks:
                track.cancel()
            await asyncio.gather(*tracks, return_exceptions=True)

    async def member_faults(self, chance):
        while True:
            await asyncio.sleep(chance.uniform(self.gap / 4, self.gap))
            verb, undo = chance.choice([("kill", "start"), ("pause", "resume"), ("cut", "heal")])
            length = chance.uniform(0.5, 3 * self.ttl)
            all_of_them = list(self.cluster.members)
            match chance.choice(["leader", "any", "any", "majority"]):
                case "leader":
                    chosen = [await self.cluster.leader()]
                case "any":
                    chosen = [chance.choice(all_of_them)]
                case "majority":
                    chosen = chance.sample(all_of_them, 2)
            if verb == "pause" and not self.run.long_pauses:
                length = min(length, self.ttl / 2)
            self.run.fault("members", verb, chosen, length)
            for number in chosen:
                await getattr(self.cluster.members[number], verb)()
            await asyncio.sleep(length)
            for number in chosen:
                await getattr(self.cluster.members[number], undo)()
            await self.cluster.ready(patience=180)  # elections take long on a machine with too much to do

    async def worker_faults(self, chance):
        while True:
            await asyncio.sleep(chance.uniform(self.gap / 4, self.gap))
            name = chance.choice(list(self.run.workers))
            if chance.random() < 0.4 and name not in self.run.spared:
                self.run.fault("workers", "kill", [name])
                self.run.kill_worker(name)
                self.run.start_worker()
                continue
            length = chance.uniform(0.2, 2 * self.ttl)
            self.run.fault("workers", "stop", [name], length)
            self.run.signal_worker(name, signal.SIGSTOP)
            try:
                await asyncio.sleep(length)
            finally:
                self.run.signal_worker(name, signal.SIGCONT)

    async def stop_faults(self, chance):
        """Half of the workers at a time, each for longer than its TTL. Not part of a usual run: it is what shows best
        that something is broken."""
        while True:
            await asyncio.sleep(chance.uniform(self.gap / 4, self.gap))
            names = chance.sample(list(self.run.workers), len(self.run.workers) // 2)
            length = chance.uniform(1.6, 2) * self.ttl
            self.run.fault("workers", "stop", names, length)
            for name in names:
                self.run.signal_worker(name, signal.SIGSTOP)
            try:
                await asyncio.sleep(length)
            finally:
                for name in names:
                    self.run.signal_worker(name, signal.SIGCONT)

    async def link_faults(self, chance):
        while True:
            await asyncio.sleep(chance.uniform(self.gap / 4, self.gap))
            number = chance.choice(list(self.cluster.members))
            match chance.choice(["break", "delay", "hold"]):
                case "break":
                    self.run.fault("links", "break", [number])
                    self.gates.break_all(number)
                case "delay":
                    delay = chance.uniform(0.02, 0.3)
                    length = chance.uniform(1, 2 * self.ttl)
                    self.run.fault("links", "delay", [number], length)
                    self.gates.delay[number] = delay
                    await asyncio.sleep(length)
                    self.gates.delay[number] = 0
                case "hold":
                    length = chance.uniform(0.5, 2 * self.ttl)
                    self.run.fault("links", "hold", [number], length)
                    self.gates.hold(number)
                    await asyncio.sleep(length)
                    self.gates.let_go(number)
