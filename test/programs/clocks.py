#!/usr/bin/env python3
"""Sleeps and waits in every way that Python knows, each for about 20 units of time.

usage: clocks.py SECONDS_PER_UNIT

Prints one JSON object: for each way, how many units it should take and did take, by several clocks, and how much
processor time it used meanwhile, with its children, which no simulated time changes. Right on any machine; on a real
clock it takes as long as it says.
"""

import asyncio
import json
import os
import queue
import resource
import select
import signal
import socket
import subprocess
import sys
import threading
import time

UNIT = float(sys.argv[1])
results = {}


def processor_time():
    both = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in both)


def way(units):
    def run(function):
        begin, used = time.perf_counter(), processor_time()
        function()
        took = time.perf_counter() - begin
        results[function.__name__] = [units, took / UNIT, (processor_time() - used) / UNIT]
    return run


start = {clock: time.clock_gettime(clock) for clock in (
    time.CLOCK_REALTIME, time.CLOCK_MONOTONIC, time.CLOCK_MONOTONIC_RAW, time.CLOCK_BOOTTIME)}
start_time = time.time()
reader, writer = os.pipe()


@way(10)
def sleep():
    time.sleep(10 * UNIT)


@way(20)
def select_call():
    assert select.select([reader], [], [], 20 * UNIT) == ([], [], [])


@way(20)
def poll_call():
    poll = select.poll()
    poll.register(reader, select.POLLIN)
    assert poll.poll(20e3 * UNIT) == []


@way(20)
def epoll_wait():
    with select.epoll() as epoll:
        epoll.register(reader, select.EPOLLIN)
        assert epoll.poll(20 * UNIT) == []


@way(20)
def lock_with_timeout():
    lock = threading.Lock()
    lock.acquire()
    assert not lock.acquire(timeout=20 * UNIT)


@way(20)
def queue_with_timeout():
    try:
        queue.Queue().get(timeout=20 * UNIT)
        raise AssertionError("got something")
    except queue.Empty:
        pass


@way(20)
def three_threads():
    threads = [threading.Thread(target=time.sleep, args=(units * UNIT,)) for units in (5, 20, 10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


@way(20)
def signalled_condition():
    condition = threading.Condition()

    def notify():
        time.sleep(20 * UNIT)
        with condition:
            condition.notify()
    thread = threading.Thread(target=notify)
    with condition:
        thread.start()
        assert condition.wait(timeout=100 * UNIT)
    thread.join()


@way(20)
def child():
    subprocess.run(["sleep", str(20 * UNIT)], check=True)


@way(15)
def shell_with_children():
    subprocess.run("sleep %f & sleep %f; wait; sleep %f" % (5 * UNIT, 10 * UNIT, 5 * UNIT),
                   shell=True, check=True)


@way(20)
def child_that_times_out():
    try:
        subprocess.run(["sleep", str(100 * UNIT)], timeout=20 * UNIT, check=True)
        raise AssertionError("it ended")
    except subprocess.TimeoutExpired:
        pass


@way(20)
def coroutines():
    async def gather():
        await asyncio.gather(*[asyncio.sleep(units * UNIT) for units in range(1, 21)])
    asyncio.run(gather())


@way(20)
def woken_by_a_write():
    thread = threading.Timer(20 * UNIT, os.write, (writer, b"x"))
    thread.start()
    assert select.select([reader], [], [], 100 * UNIT)[0] == [reader]
    thread.join()


@way(20)
def interrupted_by_a_signal():
    signal.signal(signal.SIGUSR2, lambda number, frame: None)
    main = threading.main_thread().ident
    timer = threading.Timer(20 * UNIT, signal.pthread_kill, (main, signal.SIGUSR2))
    timer.start()
    signal.sigtimedwait([signal.SIGUSR1], 20 * UNIT)
    timer.join()


@way(20)
def awaited_signal():
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
    timer = threading.Timer(20 * UNIT, os.kill, (os.getpid(), signal.SIGUSR1))
    timer.start()
    assert signal.sigtimedwait([signal.SIGUSR1], 100 * UNIT) is not None
    timer.join()


@way(20)
def socket_timeout():
    left, right = socket.socketpair()
    left.settimeout(20 * UNIT)
    try:
        left.recv(1)
        raise AssertionError("received something")
    except TimeoutError:
        pass
    right.close()


@way(3)
def busy_loop():
    # Short: where processor time does not count, every turn is charged for.
    end = time.perf_counter() + 0.003 * UNIT
    while time.perf_counter() < end:
        pass
    time.sleep(2.997 * UNIT)


total = sum(units for units, _, _ in results.values())
for clock, begin in start.items():
    results["clock %d" % clock] = [total, (time.clock_gettime(clock) - begin) / UNIT, processor_time() / UNIT]
results["time()"] = [total, (time.time() - start_time) / UNIT, processor_time() / UNIT]
print(json.dumps(results))
