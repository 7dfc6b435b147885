"""ZooKeeper from Debian's package, straight from its jars: see members.py for what a service is."""

import asyncio

TICK_MS = 200
JAVA = ["java", "-Xmx160m", "-Xshare:auto", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData",
        "-Djava.net.preferIPv4Stack=true", "-Dzookeeper.admin.enableServer=false", "-Dzookeeper.jmx.log4j.disable=true",
        # Empty containers go after a second at most, and quickly, so that a test can wait for it.
        "-Dznode.container.checkIntervalMs=1000", "-Dznode.container.maxPerMinute=60000",
        "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
        "-cp", "/usr/share/java/zookeeper.jar:/usr/share/java/slf4j-simple.jar",
        "org.apache.zookeeper.server.quorum.QuorumPeerMain"]


class Service:
    name = "zk"
    ports = 3  # clients, quorum, election

    def configure(self, members, links):
        for member in members.values():
            # A member tells its peers where its election port is: they are to use the link instead.
            real, link = (f"127.0.0.1:{port}".encode() for port in (member.ports[2], member.peer_ports[1]))
            links.rewrite[real] = link
            assert len(real) == len(link), "a rewritten address must keep its length"
            with open(f"{member.directory}/myid", "w") as myid:
                myid.write(str(member.number))
            with open(f"{member.directory}/zoo.cfg", "w") as config:
                config.write("\n".join(self.settings(member, members)) + "\n")

    def settings(self, member, members):
        yield from (f"dataDir={member.directory}", "clientPortAddress=127.0.0.1", f"clientPort={member.ports[0]}",
                    f"tickTime={TICK_MS}", "initLimit=50", "syncLimit=20", "maxSessionTimeout=60000",
                    "maxClientCnxns=0", "4lw.commands.whitelist=*", "standaloneEnabled=false",
                    f"forceSync={'yes' if self.durable else 'no'}",
                    "preAllocSize=1024", "extendedTypesEnabled=true")
        for other in members.values():
            quorum, election = other.ports[1:] if other is member else other.peer_ports
            yield f"server.{other.number}=127.0.0.1:{quorum}:{election}:participant"

    def command(self, member):
        return [*JAVA, f"{member.directory}/zoo.cfg"]

    async def ready(self, member):
        return "Mode: " in await four_letters(member, "srvr")

    async def leads(self, member):
        return "Mode: leader" in await four_letters(member, "srvr")

    async def version(self, member):
        return (await four_letters(member, "srvr")).partition("version: ")[2].partition("-")[0].partition(",")[0]

    async def survives_long_pauses(self, _):
        return True

    async def figures(self, member):
        told = dict(line.split("\t") for line in (await four_letters(member, "mntr")).splitlines())
        return {"watches": int(told["zk_watch_count"]), "entries": int(told["zk_ephemerals_count"])}


async def four_letters(member, word):
    try:
        async with asyncio.timeout(2):
            reader, writer = await asyncio.open_connection(*member.address.split(":"))
            writer.write(word.encode())
            answer = (await reader.read()).decode(errors="replace")
            writer.close()
            return answer
    except (OSError, TimeoutError):
        return ""
