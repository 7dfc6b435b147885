#!/usr/bin/python3
"""Takes a lock again and again with kazoo's own recipe: kazoo_peer.py HOSTS PATH MARK THREADS ROUNDS.

Whoever holds the lock makes the file MARK, which must not be there yet, and removes it. Each round is told in a line:
the czxid of the lock's node, and from when to when it was held, in nanoseconds of CLOCK_MONOTONIC.
"""

import os
import sys
import threading
import time

from kazoo.client import KazooClient
from kazoo.recipe.lock import Lock


class SharedLock(Lock):
    """Both are needed: the first makes others see this one, the second makes this one see all, itself included."""

    _NODE_NAME = "-lock-"
    _EXCLUDE_NAMES = ["-lock-"]


def contend(client, path, mark, rounds):
    for _ in range(rounds):
        lock = SharedLock(client, path)
        lock.acquire()
        begun = time.monotonic_ns()
        os.close(os.open(mark, os.O_CREAT | os.O_EXCL))
        czxid = client.exists(f"{path}/{lock.node}").czxid
        os.remove(mark)
        ended = time.monotonic_ns()
        lock.release()
        print(czxid, begun, ended, flush=True)


def main():
    hosts, path, mark, threads, rounds = sys.argv[1:]
    threading.excepthook = lambda args: (print("failed:", args.exc_value, flush=True), os._exit(1))
    client = KazooClient(hosts, timeout=15)
    client.start(timeout=30)
    contenders = [threading.Thread(target=contend, args=(client, path, mark, int(rounds))) for _ in range(int(threads))]
    for each in contenders:
        each.start()
    for each in contenders:
        each.join()
    client.stop()


main()
