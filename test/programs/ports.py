#!/usr/bin/env python3
"""Servers of different hosts on the same port: each is found under its host's name, and by its own host
under localhost.

    ports.py PORT    (a rank per host)
"""

import os
import socket
import sys
import threading
import time

RANK, WORLD = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])


def serve(server):
    while True:
        connection, _ = server.accept()
        connection.sendall(b"%d" % RANK)
        connection.close()


def ask(host, port, family=socket.AF_INET):
    for _ in range(100):
        try:
            with socket.socket(family) as client:
                client.connect((host, port))
                return int(client.recv(16))
        except ConnectionRefusedError:
            time.sleep(0.1)  # it may not be there yet
    raise TimeoutError(f"{host}:{port}")


def names():
    # The last lines are those of the cluster's hosts.
    with open("/etc/hosts") as file:
        return [line.split()[1] for line in file.readlines()[-WORLD:]]


def main():
    first = int(sys.argv[1])
    ways = [(first, socket.AF_INET, "0.0.0.0"), (first + 1, socket.AF_INET, "127.0.0.1"),
            (first + 2, socket.AF_INET6, "::")]
    for port, family, address in ways:
        server = socket.socket(family)
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        server.bind((address, port))
        server.listen()
        threading.Thread(target=serve, args=(server,), daemon=True).start()
        second = socket.socket(family)
        try:
            second.bind((address, port))
        except OSError as error:
            assert "in use" in str(error), error
        else:
            raise AssertionError(f"port {port} was given twice")
    hosts = names()
    assert socket.gethostname() == hosts[RANK], (socket.gethostname(), hosts)
    for port, family, _ in ways:
        assert ask("127.0.0.1", port) == RANK
        if family == socket.AF_INET6:
            assert ask("::1", port, family) == RANK
        for rank, host in enumerate(hosts):
            assert ask(host, port) == rank, (host, port)
    # One that the system chooses can be told to others.
    server = socket.create_server(("", 0))
    threading.Thread(target=serve, args=(server,), daemon=True).start()
    assert ask(socket.gethostname(), server.getsockname()[1]) == RANK
    print(f"PASSED ports {RANK}", flush=True)
    time.sleep(5)  # others still ask


if __name__ == "__main__":
    main()
