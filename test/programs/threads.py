#!/usr/bin/env python3
"""Threads that hand work to each other by queues, locks, conditions and pipes, and look at the clock meanwhile; prints
who did what, and when.

usage: threads.py
"""

import os
import queue
import threading
import time

THREADS, ROUNDS = 6, 40
START = time.monotonic()
log, lock = [], threading.Lock()
work, results = queue.Queue(), queue.Queue()
turn = threading.Condition()
whose = 0
end, source = os.pipe()


def note(name):
    with lock:
        log.append("%s %.9f" % (name, time.monotonic() - START))


def worker(number):
    global whose
    while (item := work.get()) is not None:
        note("%d has %d" % (number, item))
        if item % 3 == 0:
            time.sleep(1e-5 * (item % 7))
        if item % 5 == 0:
            os.write(source, b"x")
        results.put((number, item))
    with turn:
        turn.wait_for(lambda: whose == number, timeout=60)
        note("%d ends" % number)
        whose += 1
        turn.notify_all()


threads = [threading.Thread(target=worker, args=(number,)) for number in range(THREADS)]
for thread in threads:
    thread.start()
for item in range(ROUNDS):
    work.put(item)
for _ in range(ROUNDS):
    note("result %d of %d" % results.get(timeout=60)[::-1])
note("read %d" % len(os.read(end, 1000)))
for _ in threads:
    work.put(None)
for thread in threads:
    thread.join()
note("all have ended")
print("\n".join(log))
