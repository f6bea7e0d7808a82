#!/usr/bin/env python3
"""Ranks have the same things in memory, which may be shared as long as nobody notices: what each writes is
its own, and memory keeps its bytes.

    shared_memory.py    (two ranks or more)
"""

import ctypes
import hashlib
import mmap
import os
import random
import sys
import threading
import time

import torch

RANK = int(os.environ["RANK"])
MIB = 1 << 20
SAME, ZEROS, OWN, MAPPED = 192 * MIB, 96 * MIB, 32 * MIB, 64 * MIB
PAGE = 4096
MOST_LOOKS = 2_000_000  # sleeps cost little real time, in which memory has to be found equal beside other load


def own_memory():
    """Bytes of this process's memory that nobody shares."""
    with open("/proc/self/smaps_rollup") as file:
        return sum(int(line.split()[1]) for line in file if line.startswith(("Private_Dirty:",))) << 10


def digest(buffer):
    return hashlib.blake2b(buffer).hexdigest()


class Memory:
    """What all ranks have alike, and what is each one's own."""

    def __init__(self):
        self.pattern = random.Random(1).randbytes(16 * MIB)
        self.same = bytearray(self.pattern * (SAME // len(self.pattern)))
        for page in range(0, SAME, PAGE):  # no two pages of it are alike
            self.same[page:page + 8] = page.to_bytes(8, "little")
        self.zeros = bytearray(b"\1") * ZEROS
        self.zeros[:] = bytes(ZEROS)
        self.own = bytearray(random.Random(RANK + 2).randbytes(OWN))
        self.mapped = mmap.mmap(-1, MAPPED, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        self.mapped[:] = self.pattern * (MAPPED // len(self.pattern))
        self.expected = self.digests()

    def digests(self):
        return [digest(buffer) for buffer in (self.same, self.zeros, self.own, self.mapped)]

    def at(self, address, count):
        """Bytes of the pattern at this place of `same` or `mapped`."""
        return self.pattern[address % len(self.pattern):][:count]


def wait_until_shared(most):
    """Waits until less than `most` bytes are this process's own; returns how many are."""
    for look in range(MOST_LOOKS):
        time.sleep(0.001)
        if look % 1000 == 0 and own_memory() < most:
            break
    own_now = own_memory()
    assert own_now < most, (own_now / MIB, most / MIB)
    return own_now


def check_child(memory):
    """A child has what its parent shares."""
    child = os.fork()
    if child == 0:
        try:
            memory.mapped.madvise(mmap.MADV_DONTNEED)
            kept = not any(memory.mapped[i] for i in range(0, MAPPED, 997))
        except OSError:
            kept = digest(memory.mapped) == memory.expected[3]
        os._exit(0 if kept and digest(memory.same) == memory.expected[0] else 1)
    assert os.waitpid(child, 0)[1] == 0


def check_writes(memory):
    """Everybody writes something else to the same places."""
    same, zeros = memory.same, memory.zeros
    for page in range(0, SAME, 97 * PAGE):
        same[page + 100:page + 108] = (page + RANK).to_bytes(8, "little")
        zeros[page // 2 + 5] = RANK + 1
    time.sleep(3)
    for page in range(0, SAME, 97 * PAGE):
        assert same[page + 100:page + 108] == (page + RANK).to_bytes(8, "little")
        assert same[page + 108:page + 200] == memory.at(page + 108, 92)
        assert zeros[page // 2 + 5] == RANK + 1
    # What was written is shared anew once it is the same.
    for page in range(0, SAME, 97 * PAGE):
        same[page + 100:page + 108] = memory.at(page + 100, 8)
    assert digest(same) == memory.expected[0]


def check_given_back(memory):
    """Memory that is given back is zero when it is read again, or is not given back."""
    try:
        memory.mapped.madvise(mmap.MADV_DONTNEED)
    except OSError:
        assert digest(memory.mapped) == memory.expected[3]
    else:
        assert not any(memory.mapped[i] for i in range(0, MAPPED, 997))


def check_moved(memory, libc):
    """Moved, it is the same, and given back as above."""
    libc.mmap.restype = libc.mremap.restype = ctypes.c_void_p
    old = libc.mmap(None, ctypes.c_size_t(MAPPED), 3, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, -1, 0)
    ctypes.memmove(ctypes.c_void_p(old), memory.pattern * (MAPPED // len(memory.pattern)), MAPPED)
    for _ in range(2000):
        time.sleep(0.001)
    place = libc.mmap(None, ctypes.c_size_t(MAPPED), 0, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, -1, 0)
    may_move, fixed = 1, 2  # MREMAP_*
    part = 16 * PAGE  # of one mapping: the call takes no more
    moved = libc.mremap(ctypes.c_void_p(old), ctypes.c_size_t(part), ctypes.c_size_t(part), may_move | fixed,
                        ctypes.c_void_p(place))
    if moved == place:
        assert ctypes.string_at(moved, part) == memory.at(0, part)
        given_back = libc.madvise(ctypes.c_void_p(moved), ctypes.c_size_t(part), mmap.MADV_DONTNEED) == 0
        assert ctypes.string_at(moved, part) == (bytes(part) if given_back else memory.at(0, part))


def check_grown(memory, libc):
    """Grown in place or elsewhere, or not at all; what is new is zero."""
    libc.realloc.restype = ctypes.c_void_p
    libc.malloc.restype = ctypes.c_void_p
    block = libc.malloc(ctypes.c_size_t(SAME))
    ctypes.memmove(block, bytes(memory.same), SAME)
    for _ in range(2000):
        time.sleep(0.001)
    grown = libc.realloc(ctypes.c_void_p(block), ctypes.c_size_t(2 * SAME))
    assert digest(ctypes.string_at(grown, SAME)) == digest(memory.same)
    ctypes.memset(ctypes.c_void_p(grown + SAME), 7, SAME)


def main():
    torch.zeros(1, device="cuda")
    assert os.environ["PYTHONHASHSEED"] == "0"  # or their heaps would differ
    most = own_memory() + OWN + MAPPED + (SAME + ZEROS) // 4
    # One that waits without an end.
    threading.Thread(target=threading.Event().wait, daemon=True).start()
    memory = Memory()
    own_now = wait_until_shared(most)
    assert memory.digests() == memory.expected
    check_child(memory)
    check_writes(memory)
    check_given_back(memory)
    libc = ctypes.CDLL(None, use_errno=True)
    check_moved(memory, libc)
    check_grown(memory, libc)
    print(f"PASSED shared_memory: {own_now // MIB} MiB of its own", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
