#!/usr/bin/env python3
"""One process may duplicate another's memory only once that has shared it.

usage: share_test.py PHANTORA_RUN
"""

import ctypes
import fcntl
import os
import struct
import subprocess
import sys

# nv_escape.h, nvos.h, rs_access.h, nvstatuscodes.h.
ALLOC_MEMORY, ALLOC, DUP_OBJECT, SHARE = 0x27, 0x2b, 0x34, 0x35
ROOT_CLIENT, DEVICE, OS_DESCRIPTOR = 0x41, 0x80, 0x71
SHARE_TYPE_PID, SHARE_TYPE_ALL = 4, 1
DUP_RIGHT = 1
NV_OK, NV_ERR_INSUFFICIENT_PERMISSIONS = 0, 0x1b
# The handles that a client chose for itself.
DEVICE_HANDLE, MEMORY_HANDLE = 0xaa, 0xbb
PAGE = 4096


class ResourceManager:
    """A client of its own, with a device."""

    def __init__(self):
        self.file = os.open("/dev/nvidiactl", os.O_RDWR | os.O_CLOEXEC)
        self.client = self._alloc(0, 0, 0, ROOT_CLIENT)
        self._alloc(self.client, self.client, DEVICE_HANDLE, DEVICE)

    def _call(self, number, layout, *values):
        block = bytearray(struct.pack(layout, *values))
        fcntl.ioctl(self.file, 3 << 30 | len(block) << 16 | ord("F") << 8 | number, block)
        return struct.unpack(layout, block)

    def _alloc(self, root, parent, handle, class_id):
        reply = self._call(ALLOC, "<IIIIQII", root, parent, handle, class_id, 0, 0, 0)
        assert reply[6] == NV_OK, "NV_ESC_RM_ALLOC of 0x%x: 0x%x" % (class_id, reply[6])
        return reply[2]

    def register(self, address):
        """Gives a page of the process's own memory to the GPU."""
        reply = self._call(ALLOC_MEMORY, "<IIIIIIQQIIiI", self.client, DEVICE_HANDLE,
                           MEMORY_HANDLE, OS_DESCRIPTOR, 0, 0, address, PAGE - 1, 0, 0, -1, 0)
        assert reply[8] == NV_OK, "NV_ESC_RM_ALLOC_MEMORY: 0x%x" % reply[8]

    def share(self, share_type):
        return self._call(SHARE, "<IIIIHBxI", self.client, MEMORY_HANDLE, 0, DUP_RIGHT, share_type,
                          0, 0)[-1]

    def duplicate(self, client):
        return self._call(DUP_OBJECT, "<IIIIIII", self.client, DEVICE_HANDLE, 0, client,
                          MEMORY_HANDLE, 0, 0)[-1]


def owner(requests, replies):
    """Registers memory, tells its client's handle, then shares as it is asked to."""
    memory = ctypes.create_string_buffer(2 * PAGE)
    rm = ResourceManager()
    rm.register((ctypes.addressof(memory) + PAGE - 1) & ~(PAGE - 1))
    os.write(replies, struct.pack("I", rm.client))
    while request := os.read(requests, 4):
        os.write(replies, struct.pack("I", rm.share(struct.unpack("I", request)[0])))


def inside():
    """Under phantora-run: the other process."""
    owner_reads, requests = os.pipe()
    replies, owner_writes = os.pipe()
    if os.fork() == 0:
        os.close(requests)
        owner(owner_reads, owner_writes)
        os._exit(0)
    os.close(owner_writes)  # so that the owner's death is seen

    def reply():
        return struct.unpack("I", os.read(replies, 4))[0]

    def share(share_type):
        os.write(requests, struct.pack("I", share_type))
        assert reply() == NV_OK

    rm = ResourceManager()
    client = reply()

    def expect(status, when):
        found = rm.duplicate(client)
        assert found == status, "%s: 0x%x instead of 0x%x" % (when, found, status)

    expect(NV_ERR_INSUFFICIENT_PERMISSIONS, "not shared")
    share(SHARE_TYPE_PID)
    expect(NV_ERR_INSUFFICIENT_PERMISSIONS, "shared within the process")
    share(SHARE_TYPE_ALL)
    expect(NV_OK, "shared with everybody")
    share(SHARE_TYPE_PID)
    expect(NV_ERR_INSUFFICIENT_PERMISSIONS, "shared within the process again")
    os.close(requests)
    assert os.wait()[1] == 0
    print("PASS share")


def main():
    if sys.argv[1] == "--inside":
        inside()
        return
    result = subprocess.run([sys.argv[1], "--", os.path.abspath(__file__), "--inside"],
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                            timeout=120, check=False)
    if result.returncode != 0 or "PASS share" not in result.stdout:
        sys.exit("exit status %d\n%s" % (result.returncode, result.stdout))
    print("PASS share")


if __name__ == "__main__":
    main()
