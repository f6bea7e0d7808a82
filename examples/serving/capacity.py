#!/usr/bin/env python3
"""How many GPUs does this load need? Serves it on 1, 2, 4... GPUs of a simulated machine, and says which are enough.

usage: capacity.py [--gpus 1,2,4] [--gpu h100-sxm5-80gb] [--slo ttft=0.5,tpot=0.05] [--share 0.99] [--run PHANTORA_RUN]
                   MODEL -- LOAD...

  capacity.py examples/models/qwen3-8b -- --rate 4 --requests 100 --input 1024 --output 128
  capacity.py examples/models/qwen3-32b -- --trace BurstGPT.csv --requests 200

MODEL is served by vLLM (on PATH) with dummy weights, split over all GPUs; LOAD are options of
tools/serving/phantora_load.py. A number of GPUs is enough if that share of requests meets the SLO.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]


def serve(options, gpus, load, folder):
    """The summary of phantora-load, or None if the server cannot run so (the model may not fit)."""
    out = folder / f"{gpus}.json"
    command = [options.run, "--no-status", "--execute", "off", "--gpu", options.gpu, "--gpus", str(gpus), "--",
               sys.executable, str(ROOT / "tools/serving/phantora_load.py"), *load, "--slo", options.slo,
               "--json", str(out), "--",
               "vllm", "serve", options.model, "--load-format", "dummy", "--tensor-parallel-size", str(gpus),
               "--disable-uvicorn-access-log"]
    with open(folder / f"{gpus}.log", "w", encoding="utf-8") as log:
        subprocess.run(command, stdout=log, stderr=subprocess.STDOUT, check=False)
    if out.exists():
        return json.loads(out.read_text(encoding="utf-8"))["summary"]
    print(f"{gpus:4}  cannot serve it; the last lines were", flush=True)
    for line in (folder / f"{gpus}.log").read_text(encoding="utf-8", errors="replace").splitlines()[-5:]:
        print(f"      {line[:150]}")
    return None


def main():
    words = sys.argv[1:]
    at = words.index("--") if "--" in words else len(words)
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--gpus", default="1,2,4")
    parser.add_argument("--gpu", default="h100-sxm5-80gb")
    parser.add_argument("--slo", default="ttft=0.5,tpot=0.05")
    parser.add_argument("--share", type=float, default=0.99)
    parser.add_argument("--run", default=str(ROOT / "bazel-bin/tools/phantora-run"))
    options = parser.parse_args(words[:at])
    load = words[at + 1 :]
    if not load:
        parser.error("which load? -- --rate 4 --requests 100, say")
    enough = None
    print("GPUs  requests/s  output tokens/s  TTFT p50      p99   TPOT p50      p99   within the SLO")
    with tempfile.TemporaryDirectory(prefix="phantora-capacity-") as folder:
        for gpus in map(int, options.gpus.split(",")):
            found = serve(options, gpus, load, pathlib.Path(folder))
            if not found:
                continue
            if "goodput" not in found:
                print(f"{gpus:4}  all {found['requests']} requests failed", flush=True)
                continue
            ttft, tpot, share = found["ttft"], found["tpot"], found["goodput"]["share"]
            print(f"{gpus:4}  {found['requests_per_s']:10.2f}  {found['output_tokens_per_s']:15.0f}  "
                  f"{ttft['p50_s']:7.3f}s {ttft['p99_s']:7.3f}s  {1e3 * tpot.get('p50_s', 0):6.2f}ms "
                  f"{1e3 * tpot.get('p99_s', 0):6.2f}ms  {share:8.1%}", flush=True)
            if enough is None and share >= options.share:
                enough = gpus
    print(f"enough for {options.share:.0%} within {options.slo}: " + (f"{enough} GPUs" if enough else "none of these"))
    return 0 if enough else 1


if __name__ == "__main__":
    sys.exit(main())
