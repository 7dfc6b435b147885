"""Members as containers, by docker/compose.yaml: see members.py for what a driver is. Each run has a project of its own."""

import asyncio
import json
import os
import subprocess

from processes import free_ports

DOCKER = os.path.join(os.path.dirname(os.path.realpath(__file__)), "../../docker")


def run(*command, **options):
    done = subprocess.run(command, text=True, capture_output=True, check=False, **options)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip()}")
    return done.stdout


async def docker(*arguments):
    return await asyncio.to_thread(run, "docker", *arguments)


class Container:
    def __init__(self, driver, number, port):
        self.driver = driver
        self.number = number
        self.name = f"{driver.service.name}{number}"
        self.port = port
        self.id = None
        self.started = False
        self.paused = False

    @property
    def address(self):
        return f"127.0.0.1:{self.port}"

    @property
    def running(self):
        if not self.started:
            return False
        return True if run("docker", "inspect", "-f", "{{.State.Running}}", self.id).strip() == "true" else None

    def log(self):
        path = f"{self.driver.directory}/{self.name}.log"
        with open(path, "w") as log:
            subprocess.run(["docker", "logs", self.id], stdout=log, stderr=log, check=False)
        return path

    async def start(self):
        if not self.started:
            self.started = True
            await docker("start", self.id)

    async def kill(self):
        if self.started:
            self.started = self.paused = False
            await docker("kill", self.id)

    async def pause(self):
        self.paused = True
        await docker("pause", self.id)

    async def resume(self):
        if self.paused:
            self.paused = False
            await docker("unpause", self.id)

    async def cut(self):
        await self.link("down")

    async def heal(self):
        if self.started:
            await self.link("up")

    async def link(self, state):
        """The interface that leads to the peers. Its address stays; so do connections, through which nothing flows."""
        networks = json.loads(await docker("inspect", "-f", "{{json .NetworkSettings.Networks}}", self.id))
        address = networks[f"{self.driver.project}_peers"]["IPAddress"]
        for line in (await docker("exec", self.id, "ip", "-o", "-4", "addr")).splitlines():
            fields = line.split()
            if fields[3].startswith(f"{address}/"):
                return await docker("exec", self.id, "ip", "link", "set", fields[1], state)
        raise RuntimeError(f"{self.name} has no interface with the address {address}")


class Driver:
    def __init__(self, service, count, directory):
        if count != 3:
            raise RuntimeError("docker/compose.yaml has three members of each service")
        self.service = service
        self.directory = directory
        self.project = f"holdfast-test-{os.getpid()}"
        ports = free_ports(count)
        self.members = {number: Container(self, number, ports[number - 1]) for number in range(1, count + 1)}
        self.surroundings = os.environ | {"HOLDFAST_PROJECT": self.project} | {
            f"HOLDFAST_{m.name.upper()}_PORT": str(m.port) for m in self.members.values()}

    async def start(self):
        await asyncio.to_thread(subprocess.run, [f"{DOCKER}/up", self.service.name], env=self.surroundings, check=True)
        for member in self.members.values():
            member.id = run(f"{DOCKER}/compose", "ps", "-q", member.name, env=self.surroundings).strip()
            member.started = True

    def close(self):
        subprocess.run([f"{DOCKER}/down"], env=self.surroundings, check=False, capture_output=True)
