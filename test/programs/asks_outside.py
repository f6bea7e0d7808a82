#!/usr/bin/env python3
"""Asks a server outside of the run, and prints how long the answer took, and what a process beside it slept.

    asks_outside.py WAY PORT PATH    (of the servers: datagrams on the loopback; a unix socket)
"""

import os
import select
import socket
import sys
import time

WAY, PORT, PATH = sys.argv[1], int(sys.argv[2]), sys.argv[3]
TIMEOUT = 5.0


def datagrams(question=b"question", timeout=TIMEOUT):
    client = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    client.connect(("127.0.0.1", PORT))
    client.setblocking(False)
    client.send(question)
    return client, wait_by_poll(client, timeout)


def wait_by_poll(client, timeout=TIMEOUT):
    poll = select.poll()
    poll.register(client, select.POLLIN)
    return poll.poll(timeout * 1000)


def ask():
    if WAY == "poll":
        client, ready = datagrams()
        assert ready and client.recv(100) == b"answer"
    elif WAY == "nobody":
        _, ready = datagrams(b"nobody", 1)
        assert not ready
    elif WAY in ("select", "epoll", "several"):
        client = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        client.connect(("127.0.0.1", PORT))
        for _ in range(3 if WAY == "several" else 1):
            client.send(b"question")
        epoll = select.epoll()
        epoll.register(client, select.EPOLLIN)
        if WAY == "select":
            assert select.select([client], [], [], TIMEOUT)[0]
        elif WAY == "epoll":
            assert epoll.poll(TIMEOUT)
        for _ in range(3 if WAY == "several" else 1):
            assert wait_by_poll(client)
            assert client.recv(100) == b"answer"
    elif WAY == "recv":
        client = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, (5).to_bytes(8, "little") + bytes(8))
        client.connect(("127.0.0.1", PORT))
        client.send(b"question")
        assert client.recv(100) == b"answer"
    elif WAY == "unconnected":
        client = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        client.sendto(b"question", ("127.0.0.1", PORT))
        assert wait_by_poll(client)
        assert client.recv(100) == b"answer"
    elif WAY in ("unix", "parts"):
        client = socket.socket(socket.AF_UNIX)
        client.settimeout(TIMEOUT)
        client.connect(PATH)
        client.send(b"question")
        parts = 3 if WAY == "parts" else 1
        for _ in range(parts):
            assert client.recv(100) == b"part"
    elif WAY == "run":
        ask_the_run()
    else:
        raise ValueError(WAY)


def ask_the_run():
    """A server of the run, which takes its time."""
    server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    server.bind(("127.0.0.1", 0))
    if os.fork() == 0:
        _, sender = server.recvfrom(100)
        time.sleep(20)
        server.sendto(b"answer", sender)
        os._exit(0)
    client = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    client.connect(server.getsockname())
    client.send(b"question")
    assert wait_by_poll(client, 60)
    os.wait()


def main():
    start, end = os.pipe()
    begin = time.monotonic()
    if os.fork() == 0:
        time.sleep(100)
        os.write(end, b"%f" % (time.monotonic() - begin))
        os._exit(0)
    ask()
    took = time.monotonic() - begin
    print(took, os.read(start, 100).decode())


if __name__ == "__main__":
    main()
