"""etcd, Debian's or the program that HOLDFAST_ETCD names: see members.py for what a service is."""

import asyncio
import json
import os
import re
import urllib.request


class Service:
    name = "etcd"
    ports = 2  # clients, peers

    def configure(self, members, _):
        self.peers = ",".join(f"m{m.number}=http://127.0.0.1:{m.peer_ports[0]}" for m in members.values())

    def command(self, member):
        client, peer = (f"http://127.0.0.1:{port}" for port in member.ports)
        return [os.environ.get("HOLDFAST_ETCD", "etcd"), "--name", f"m{member.number}",
                "--data-dir", f"{member.directory}/data", "--listen-client-urls", client,
                "--advertise-client-urls", client, "--listen-peer-urls", peer,
                "--initial-advertise-peer-urls", f"http://127.0.0.1:{member.peer_ports[0]}",
                "--initial-cluster", self.peers, "--initial-cluster-token", "holdfast-test", "--logger", "zap"]

    async def ready(self, member):
        return (await ask(member, "health")).get("health") == "true"

    async def leads(self, member):
        status = await ask(member, "v3/maintenance/status", b"{}")
        return bool(status) and status.get("leader") == status["header"]["member_id"]

    async def version(self, member):
        return (await ask(member, "version")).get("etcdserver", "")

    async def survives_long_pauses(self, member):
        """Before 3.4.31 and 3.5.13 a leader that wakes up revokes leases that were renewed at its successor."""
        version = tuple(int(part) for part in (await self.version(member)).split("-")[0].split("."))
        return version >= (3, 5, 13) or (3, 4, 31) <= version < (3, 5)

    async def figures(self, member):
        metrics = dict(re.findall(r"^etcd_debugging_mvcc_(watcher|keys)_total (\d+)$",
                                  (await fetch(member, "metrics")).decode(), re.MULTILINE))
        return {"watches": int(metrics["watcher"]), "entries": int(metrics["keys"])}


async def ask(member, path, body=None):
    try:
        return json.loads(await fetch(member, path, body))
    except (OSError, ValueError):
        return {}


async def fetch(member, path, body=None):
    def get():
        with urllib.request.urlopen(f"http://{member.address}/{path}", body, timeout=1) as answer:
            return answer.read()
    return await asyncio.to_thread(get)
