#!/usr/bin/env python3
"""A network that changes while a program communicates: links that fail or slow down, others' traffic.

usage: network_faults_test.py PHANTORA_RUN NCCL_PERF
"""

import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

PHANTORA_RUN, NCCL_PERF = sys.argv[1:3]
TIMEOUT_SECONDS = 120
# Of phantora-run (docs/COMMAND_LINE.md).
NCCL_FAILED = 71
# Two machines of two GPUs, in groups of their own, so that all between them goes over a spine.
CLUSTER = """
about: two machines, rails, spines
hosts: 2
host: {{gpu: h100-sxm5-80gb, gpus: 2, nvlink: true, cpu: intel, cores: 8, memory_gib: 64, nics: 2}}
nic: {{transport: infiniband, gbit_per_s: 400, messages_per_us: 330}}
network:
  shape: rails
  hosts_per_group: 1
  spines: {spines}
  uplinks: {spines}
  core_gbit_per_s: {core}
  edge_latency_ns: 600
  core_latency_ns: 600
  mtu: 4096
  multipath: {multipath}
{network}
"""
# Of 1 GiB; a ring's traffic is 1.5 times as much, over two interfaces: 16.8 ms.
SIZE, BYTES, ALONE_US = "1G", 1 << 30, 16.8e3


class NetworkFaultsTest(unittest.TestCase):
    def setUp(self):
        self.directory = tempfile.TemporaryDirectory()
        self.addCleanup(self.directory.cleanup)

    def start(self, *events, iterations=1, spines=2, multipath="spray", core=400, reroute_ms=None, options=(),
              **environment):
        network = f"  reroute_ms: {reroute_ms}\n" if reroute_ms else ""
        if events:
            network += "events:\n" + "".join(f"  - {event}\n" for event in events)
        path = pathlib.Path(self.directory.name, "cluster.yaml")
        path.write_text(CLUSTER.format(network=network, spines=spines, multipath=multipath, core=core))
        return subprocess.run(
            [PHANTORA_RUN, "--host-time", "fixed", "--cluster", str(path), *options, "--", NCCL_PERF, "all_reduce", "-b", SIZE,
             "-e", SIZE, "-w", "0", "-n", str(iterations), "-c", "0"],
            text=True, capture_output=True, timeout=TIMEOUT_SECONDS, check=False,
            env=dict(os.environ, NCCL_ALGO="Ring", **environment))

    def microseconds(self, *events, said=(), **options):
        """One all-reduce takes so long, in the mean."""
        run = self.start(*events, **options)
        self.assertEqual(run.returncode, 0, run.stdout + run.stderr)
        for words in said:
            self.assertIn(words, run.stderr)
        row = re.search(rf"^\[rank 0\]\s+{BYTES}\s+\d+\s+\S+\s+\S+\s+-?\d+\s+([\d.]+)", run.stdout, re.M)
        self.assertIsNotNone(row, run.stdout)
        return float(row[1])

    def test_nothing_happens(self):
        self.assertAlmostEqual(self.microseconds() / ALONE_US, 1, delta=0.03)

    # --- Links that fail ---------------------------------------------------------
    # The first all-reduce is under way from 3.5 ms on.

    def test_a_link_that_dies_is_gone_around(self):
        alone = self.microseconds()
        took = self.microseconds("{at_ms: 10, down: group 0 rail 0 to spine 1}", reroute_ms=3,
                                 said=["group 0 rail 0 to spine 1 failed at 10 ms", "took another way 1 times"])
        # It stands still until switches know; the other spine carries all that an interface can.
        self.assertAlmostEqual(took - alone, 3000, delta=10)

    def test_what_is_left_is_narrower(self):
        alone = self.microseconds(core=200)
        took = self.microseconds("{at_ms: 10, down: spine 1}", core=200)
        # Half of the rate for what was left, after a millisecond.
        self.assertAlmostEqual(took, (10_000 - 3475) + 1000 + 2 * (alone - (10_000 - 3475)), delta=100)

    def test_an_interface_that_dies_ends_the_run(self):
        run = self.start("{at_ms: 10, down: host 1 nic 1}")
        self.assertEqual(run.returncode, NCCL_FAILED, run.stdout + run.stderr)
        for words in ("the network does not connect the ranks of communicator 1 of 4 ranks: host 0 has no way to host 1 "
                      "since host 1 NIC 1 to group 1 rail 1 failed at 10 ms (", "cluster.yaml:17)",
                      "  host 0: ranks 0 1\n  host 1: ranks 2 3\n", "It has stood still for 34.3597 s.",
                      "ncclRemoteError"):
            self.assertIn(words, run.stderr)
        self.assertNotIn("Avg bus bandwidth", run.stdout)

    def test_one_that_comes_back_in_time_does_not(self):
        alone = self.microseconds()
        self.assertAlmostEqual(self.microseconds("{at_ms: 10, down: host 1 nic 1}", "{at_ms: 3010, up: host 1 nic 1}"),
                               alone + 3_000_000, delta=10)
        # By default NCCL waits 34 s.
        run = self.start("{at_ms: 10, down: host 1 nic 1}", "{at_ms: 3010, up: host 1 nic 1}", NCCL_IB_TIMEOUT="16")
        self.assertEqual(run.returncode, NCCL_FAILED)
        self.assertIn("It has stood still for 2.14748 s", run.stderr)

    # --- Links that have less ------------------------------------------------------

    def test_a_slow_link_slows_all(self):
        ratio = self.microseconds("{at_ms: 0, capacity: {link: host 0 nic 1, share: 0.25}}") / self.microseconds()
        self.assertAlmostEqual(ratio, 4, delta=0.1)

    def test_traffic_of_others(self):
        ratio = self.microseconds("{at_ms: 0, traffic: {from: host 0 nic 0, to: host 1 nic 0, gbit_per_s: 100, "
                                  "until_ms: 1000}}") / self.microseconds()
        self.assertAlmostEqual(ratio, 400 / 300, delta=0.02)

    # --- Ways of equal length -----------------------------------------------------------

    def test_ways(self):
        """Two spines of which each carries half of what an interface sends."""
        def time(multipath, **environment):
            return self.microseconds(multipath=multipath, core=200, **environment)
        spray, hashed = time("spray"), time("ecmp")
        self.assertGreater(hashed, 1.2 * spray)
        self.assertAlmostEqual(time("adaptive") / spray, 1, delta=0.01)
        for several in (time("split\n  paths: 16"), time("ecmp", NCCL_IB_QPS_PER_CONNECTION="16")):
            self.assertLess(several, 0.95 * hashed)
            self.assertGreater(several, spray)

    # --- What links carried ----------------------------------------------------------

    def test_the_busiest_links_are_told(self):
        report, trace = (pathlib.Path(self.directory.name, name) for name in ("report", "trace.json"))
        self.microseconds("{at_ms: 10, down: group 0 rail 0 to spine 1}", reroute_ms=3,
                          said=["network: the busiest link, host 0 NIC 0 to group 0 rail 0, carried"],
                          options=["--report", str(report), "--trace", str(trace)])
        links = json.loads((report / "report.json").read_text())["links"]
        busiest = {link["name"]: link for link in links["busiest"]}
        nic, left = busiest["host 0 NIC 0 to group 0 rail 0"], busiest["group 0 rail 0 to spine 0"]
        # Both all-reduces: 1.5 times the bytes, half of them by each interface, and InfiniBand's headers.
        self.assertAlmostEqual(nic["bytes"], 2 * 0.75 * BYTES / 0.978, delta=1e-3 * BYTES)
        self.assertAlmostEqual(nic["peak_share"], 1, delta=0.01)
        self.assertEqual(nic["gbit_per_s"], 400)
        # Until 10 ms the other spine carried half of that; then nothing was carried for 3 ms.
        bins = int((0.010 - links["start_s"]) / links["bin_s"])
        before = sum(nic["share"][:bins + 1]) * links["bin_s"] * 50e9
        self.assertGreater(before, 200e6)
        self.assertAlmostEqual(nic["bytes"] - left["bytes"], before / 2, delta=3e6)
        def share(link, at_s):
            return link["share"][int((at_s - links["start_s"]) / links["bin_s"])]
        for at_s, nic_share, left_share in ((0.007, 1, 0.5), (0.0115, 0, 0), (0.020, 1, 1)):
            self.assertAlmostEqual(share(nic, at_s), nic_share, delta=0.02)
            self.assertAlmostEqual(share(left, at_s), left_share, delta=0.02)
        counters = {event["name"] for event in json.loads(trace.read_text()) if event["ph"] == "C"}
        self.assertIn("host 0 NIC 0 to group 0 rail 0", counters)

    # --- Mistakes ----------------------------------------------------------------

    def test_a_name_that_does_not_exist(self):
        run = self.start("{at_ms: 10, down: spine 7}")
        self.assertEqual(run.returncode, 125, run.stderr)
        self.assertIn('cluster.yaml:17: the network has nothing called "spine 7"; near are "spine 0", "spine 1"', run.stderr)

    def test_what_was_not_reached(self):
        self.microseconds("{at_ms: 1e6, down: spine 0}", said=["the run was over before 1 of the cluster's network events"])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
