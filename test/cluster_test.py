#!/usr/bin/env python3
"""PyTorch programs on clusters: collectives with their data, and parallel training of every kind.

usage: cluster_test.py PHANTORA_RUN PROGRAM...
"""

import os
import pathlib
import re
import socket
import subprocess
import sys
import tempfile
import unittest

PHANTORA_RUN = sys.argv[1]
PROGRAMS = {pathlib.Path(path).stem: path for path in sys.argv[2:]}
VENV = pathlib.Path(os.environ.get("PHANTORA_CACHE") or pathlib.Path.home() / ".cache/phantora") / "venv/bin"
TIMEOUT_SECONDS = 240
PORTS = 20123  # and the next two


def phantora(*command, options):
    # One thread per rank for the host's share of the work: the hosts have many processors, this machine few.
    return subprocess.run([PHANTORA_RUN, *options, "--", *map(str, command)], text=True, check=False,
                          capture_output=True, timeout=TIMEOUT_SECONDS,
                          env=dict(os.environ, OMP_NUM_THREADS="1"))


class ClusterTest(unittest.TestCase):
    PRELOAD = ("--preload", "torch")

    def run_program(self, name, *arguments, hosts=2, ranks=1, options=()):
        """The output of a program that PASSED in `ranks` ranks per host."""
        result = phantora(VENV / "python", PROGRAMS[name], *arguments,
                          options=["--cluster", f"dgx-h100:{hosts}", "--ranks-per-host", str(ranks), *options])
        self.check(result)
        return result.stdout

    def check(self, result):
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        self.assertNotIn("Xid", result.stderr)


class CollectivesTest(ClusterTest):
    def parts(self):
        sources = sorted(pathlib.Path(PROGRAMS["nccl_ops"]).parent.glob("nccl_ops_*.py"))
        return [part for source in sources
                for part in re.findall(r"^@part\ndef (\w+)", source.read_text(), re.M)]

    def test_they_have_the_values_that_must_result(self):
        parts = self.parts()
        self.assertGreater(len(parts), 20)
        output = self.run_program("nccl_ops", *parts, hosts=2, ranks=2, options=self.PRELOAD)
        self.assertEqual(output.count("PASSED nccl_ops"), 4, output)


class PreloadTest(ClusterTest):
    """Ranks that are copies of one process, which has imported PyTorch."""

    def run_both(self, *arguments):
        """What each rank has written, without and with --preload, and the exit statuses."""
        written, statuses = [], []
        for options in ([], self.PRELOAD):
            with tempfile.TemporaryDirectory() as folder:
                result = phantora(VENV / "python", PROGRAMS["rank_view"], *arguments,
                                  options=["--cluster", "dgx-h100:2", "--ranks-per-host", "2", "--host-time", "fixed",
                                           "--output", folder, *options])
                written.append({path.name: path.read_text() for path in sorted(pathlib.Path(folder).iterdir())})
                statuses.append(result.returncode)
        return written, statuses

    def test_a_program_does_not_notice(self):
        written, statuses = self.run_both("one", "two")
        self.assertEqual(statuses, [0, 0], written)
        self.assertEqual(written[0].keys(), written[1].keys())
        for name in written[0]:
            self.assertEqual(*(self.without_port(text[name]) for text in written))
        self.assertIn("random [4, 4]\n", written[1]["rank-3.out"])

    @staticmethod
    def without_port(text):
        return re.sub(r"(?m)^.*hostname of the client socket.*\n", "", text)

    def test_an_exit_status_is_the_ranks(self):
        _, statuses = self.run_both("fail")
        self.assertEqual(statuses, [3, 3])

    def test_what_cannot_be_preloaded_is_said(self):
        for modules, why in (("no_such_module", "No module named 'no_such_module'"),
                             ("rank_view_gpu", "rank_view_gpu uses a GPU when it is imported")):
            with tempfile.TemporaryDirectory() as folder:
                pathlib.Path(folder, "rank_view_gpu.py").write_text("import torch\ntorch.ones(1, device='cuda')\n")
                program = pathlib.Path(folder, "program.py")
                program.write_text("print('never')\n")
                result = phantora(VENV / "python", program, options=["--cluster", "dgx-h100:1", "--preload", modules])
            self.assertEqual(result.returncode, 126, result.stdout + result.stderr)
            self.assertIn(why, result.stderr)
            self.assertNotIn("never", result.stdout)


class TrainingTest(ClusterTest):
    def test_ddp_takes_time_for_its_gradients(self):
        output = self.run_program("ddp", options=["--host-time", "fixed"])
        self.assertIn("PASSED ddp", output)
        fp32, bf16, alone = map(float, re.findall(r"([\d.]+) ms per step on the GPU", output))
        self.assertGreater(fp32, bf16)
        self.assertGreater(bf16, alone)

    def test_fsdp(self):
        output = self.run_program("fsdp", options=self.PRELOAD)
        self.assertIn("PASSED fsdp1", output)
        self.assertIn("PASSED fsdp2", output)

    def test_tensor_parallel(self):
        self.assertIn("PASSED tensor_parallel", self.run_program("tensor_parallel", hosts=2, ranks=2, options=self.PRELOAD))

    def test_pipeline(self):
        self.assertEqual(self.run_program("pipeline", options=self.PRELOAD).count("PASSED pipeline"), 2)


class LaunchTest(ClusterTest):
    def test_hosts_have_ports_of_their_own(self):
        # Somebody else on this machine has the same ports already.
        taken = []
        for port in range(PORTS, PORTS + 3):
            taken.append(socket.create_server(("", port)))
        try:
            output = self.run_program("ports", PORTS, hosts=3)
        finally:
            for server in taken:
                server.close()
        self.assertEqual(output.count("PASSED ports"), 3, output)

    def test_ranks_share_memory_until_they_write_to_it(self):
        output = self.run_program("shared_memory", hosts=2, options=["--share-memory", "on"])
        self.assertEqual(output.count("PASSED shared_memory"), 2, output)

    def test_torchrun_on_every_host(self):
        result = phantora(
            "sh", "-c", f"{VENV}/torchrun --nnodes=$NNODES --node-rank=$NODE_RANK --nproc-per-node=1"
            f" --master-addr=$MASTER_ADDR --master-port=$MASTER_PORT {PROGRAMS['expert_parallel']}",
            options=["--cluster", "dgx-h100:2", "--per-host"])
        self.check(result)
        self.assertRegex(result.stdout, r"(?m)^\[host 0\] rank 0: PASSED expert_parallel$")
        self.assertRegex(result.stdout, r"(?m)^\[host 1\] rank 1: PASSED expert_parallel$")

    @staticmethod
    def without_name_server(output):
        # Of a name server outside, which may answer in time or not, and with the real date.
        return "".join(line for line in output.splitlines(keepends=True)
                       if "[c10d] The hostname of the client socket cannot be retrieved" not in line)

    def test_fixed_time_and_a_file_for_each_rank(self):
        outputs = []
        for _ in range(2):
            with tempfile.TemporaryDirectory() as root:
                self.run_program("expert_parallel", options=["--output", root, "--host-time", "fixed"])
                outputs.append({path.name: self.without_name_server(path.read_text())
                                for path in pathlib.Path(root).iterdir()})
        self.assertEqual(outputs[0], outputs[1])
        self.assertEqual(set(outputs[0]), {"rank-0.out", "rank-0.err", "rank-1.out", "rank-1.err"})
        self.assertIn("PASSED", outputs[0]["rank-1.out"])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
