#!/usr/bin/env python3
"""Answers from outside the run: time stands still until they come.

usage: outside_test.py PHANTORA_RUN ASKS_OUTSIDE_PY

The servers are this process, which answers in real time: datagrams on the loopback, as name servers do, and a unix
socket.
"""

import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest

PHANTORA_RUN, PROGRAM = map(os.path.abspath, sys.argv[1:3])
MODES = ("fixed", "measured")
WAYS = ("poll", "select", "epoll", "recv", "unconnected", "several", "unix", "parts")
DELAY = 0.2  # seconds of real time until an answer


def answer_datagrams(server):
    while True:
        try:
            question, sender = server.recvfrom(100)
        except OSError:
            return
        if question != b"nobody":
            time.sleep(DELAY)
            server.sendto(b"answer", sender)


def answer_stream(connection):
    with connection:
        connection.recv(100)
        for _ in range(3):
            time.sleep(DELAY)
            try:
                connection.sendall(b"part")
            except BrokenPipeError:  # one is enough for some
                return


def answer_streams(server):
    while True:
        try:
            connection = server.accept()[0]
        except OSError:
            return
        threading.Thread(target=answer_stream, args=(connection,), daemon=True).start()


class OutsideTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        cls.datagrams.bind(("127.0.0.1", 0))
        cls.streams = socket.socket(socket.AF_UNIX)
        cls.path = os.path.join(cls.folder.name, "server")
        cls.streams.bind(cls.path)
        cls.streams.listen()
        threading.Thread(target=answer_datagrams, args=(cls.datagrams,), daemon=True).start()
        threading.Thread(target=answer_streams, args=(cls.streams,), daemon=True).start()

    @classmethod
    def tearDownClass(cls):
        cls.datagrams.close()
        cls.streams.close()
        cls.folder.cleanup()

    def ask(self, way, mode):
        """The simulated seconds until the answer, those that another process slept meanwhile, and real seconds."""
        begin = time.monotonic()
        result = subprocess.run(
            [PHANTORA_RUN, "--no-status", "--host-time", mode, "--", sys.executable, PROGRAM, way,
             str(self.datagrams.getsockname()[1]), self.path],
            text=True, capture_output=True, check=False, timeout=60)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        took, slept = map(float, result.stdout.split())
        return took, slept, time.monotonic() - begin

    def test_an_answer_takes_no_time(self):
        for way in WAYS:
            for mode in MODES:
                with self.subTest(way=way, mode=mode):
                    took, slept, real = self.ask(way, mode)
                    self.assertLess(took, 0.1, "time passed until the answer")
                    self.assertGreaterEqual(real, DELAY)
                    self.assertAlmostEqual(slept, 100, delta=1)

    def test_who_is_not_answered_waits_for_his_timeout(self):
        for mode in MODES:
            with self.subTest(mode=mode):
                took, _, real = self.ask("nobody", mode)
                self.assertAlmostEqual(took, 1, delta=0.1)
                self.assertGreaterEqual(real, 1)

    def test_servers_of_the_run_answer_in_simulated_time(self):
        for mode in MODES:
            with self.subTest(mode=mode):
                took, _, real = self.ask("run", mode)
                self.assertAlmostEqual(took, 20, delta=0.1)
                self.assertLess(real, 15)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
