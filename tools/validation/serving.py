"""Measured servers: each point is a real server and a real client under phantora-run, beside what was measured.

Of each campaign in test/validation/serving, NAME.toml says which model, GPU and server, and how it was measured;
NAME.tsv has the points: tokens of prompts (isl) and answers (osl), requests in flight (concurrency), GPUs
(tp), mean TTFT and mean TPOT in ms. They are for testing: nothing may be made from them. results.tsv there keeps what
came out.

A point is run until its means have come to rest (phantora-load --settled), 20 rounds at most.
"""

import csv
import dataclasses
import json
import pathlib
import statistics
import tempfile
import time
import tomllib

from validation.runner import RunError, run
from validation.tables import percent, table

SETTLED = 0.01
ROUNDS = 20
GPUS_OF_HOST = 8
COLUMNS = ("campaign", "isl", "osl", "concurrency", "tp", "ttft_ms", "tpot_ms", "rounds", "preemptions", "busy",
           "network", "measured", "estimated", "bar", "real_s", "version")


@dataclasses.dataclass(frozen=True)
class Point:
    isl: int
    osl: int
    concurrency: int
    tp: int
    ttft_ms: float
    tpot_ms: float

    def key(self):
        return (self.isl, self.osl, self.concurrency, self.tp)

    def name(self):
        return f"{self.isl}-{self.osl}-c{self.concurrency}-tp{self.tp}"


@dataclasses.dataclass
class Campaign:
    name: str
    title: str
    source: str
    model: str  # a folder of examples/models
    gpu: str
    host: str  # a cluster, whose hosts have such GPUs
    environment: str  # a folder of the cache's frameworks
    server: list  # words, with {model}, {isl}, {osl}, {concurrency} and {tp}
    points: list


def read(folder):
    """All campaigns of a folder. Raises ValueError and OSError."""
    campaigns = []
    for file in sorted(pathlib.Path(folder).glob("*.toml")):
        words = tomllib.loads(file.read_text(encoding="utf-8"))
        with open(file.with_suffix(".tsv"), newline="", encoding="utf-8") as rows:
            points = [Point(*(int(row[name]) for name in ("isl", "osl", "concurrency", "tp")),
                            *(float(row[name]) for name in ("ttft_ms", "tpot_ms")))
                      for row in csv.DictReader(rows, delimiter="\t")]
        try:
            campaigns.append(Campaign(name=file.stem, points=points, **words))
        except TypeError as error:
            raise ValueError(f"{file}: {error}") from error
    return campaigns


def command(campaign, point, root, built, cache, out):
    """Words of phantora-run."""
    words = {"model": str(root / "examples/models" / campaign.model), "isl": point.isl, "osl": point.osl,
             "concurrency": point.concurrency, "tp": point.tp, "tokens": point.concurrency + point.isl + 1500,
             "length": point.isl + point.osl + 1500}
    bin_folder = cache / "frameworks" / campaign.environment / "bin"
    # vLLM looks whether the host has memory for each of its GPUs, which only a host of their kind has for all.
    machine = ["--cluster", f"{campaign.host}:1", "--start", "once"] if point.tp == GPUS_OF_HOST else [
        "--gpu", campaign.gpu, "--gpus", str(point.tp)]
    return [str(built / "tools/phantora-run"), "--no-status", *machine, "--execute", "off",
            "--report", str(out / "report"), "--",
            "env", f"PATH={bin_folder}:/usr/bin:/bin", str(bin_folder / "python"),
            str(root / "tools/serving/phantora_load.py"), "--closed", str(point.concurrency),
            "--warm-up", str(2 * point.concurrency), "--rounds", str(ROUNDS), "--settled", str(SETTLED),
            "--input", str(point.isl), "--output", str(point.osl), "--json", str(out / "load.json"), "--",
            *(word.format(**words) for word in campaign.server)]


def outcome(campaign, point, out, seconds, version):
    """A row of results."""
    summary = json.loads((out / "load.json").read_text(encoding="utf-8"))["summary"]
    report = json.loads((out / "report/report.json").read_text(encoding="utf-8"))
    rank = report["ranks"][0]
    shares = {name: source["share"] for name, source in rank["time_by_source"].items()}
    network = sum(kernel["share"] for kernel in rank["largest_kernels"] if kernel["name"].startswith("NCCL"))
    return {
        "campaign": campaign.name, "isl": point.isl, "osl": point.osl, "concurrency": point.concurrency,
        "tp": point.tp, "ttft_ms": f"{1e3 * summary['ttft']['mean_s']:.1f}",
        "tpot_ms": f"{1e3 * summary['tpot']['mean_s']:.3f}",
        "rounds": summary["settling"]["rounds"], "preemptions": int(summary["server"].get("preemptions", 0)),
        "busy": f"{rank['gpu_busy_s'] / rank['simulated_s']:.2f}", "network": f"{network:.2f}",
        "measured": f"{shares['measured'] + shares['interpolated']:.2f}",
        "estimated": f"{shares['estimated'] + shares['placeholder']:.2f}",
        "bar": f"{rank['price_error']:.2f}", "real_s": f"{seconds:.0f}", "version": version,
    }


def read_results(file):
    if not file.exists():
        return []
    with open(file, newline="", encoding="utf-8") as rows:
        return list(csv.DictReader(rows, delimiter="\t"))


def write_results(file, rows):
    order = sorted(rows, key=lambda row: (row["campaign"], *(int(row[name]) for name in (
        "tp", "isl", "osl", "concurrency"))))
    with open(file, "w", newline="", encoding="utf-8") as out:
        writer = csv.DictWriter(out, COLUMNS, delimiter="\t", lineterminator="\n")
        writer.writeheader()
        writer.writerows(order)


def misses(campaign, rows):
    """(point, row, miss of TTFT, miss of TPOT) of those that have a result."""
    points = {point.key(): point for point in campaign.points}
    found = []
    for row in rows:
        key = tuple(int(row[name]) for name in ("isl", "osl", "concurrency", "tp"))
        if row["campaign"] == campaign.name and key in points:
            point = points[key]
            found.append((point, row, float(row["ttft_ms"]) / point.ttft_ms - 1,
                          float(row["tpot_ms"]) / point.tpot_ms - 1))
    return found


def markdown(campaigns, rows):
    parts = []
    for campaign in campaigns:
        found = misses(campaign, rows)
        parts.append(f"### {campaign.title}\n\n{campaign.source}")
        if not found:
            parts.append("Never run.")
            continue
        parts.append(table(
            ("prompt", "answer", "in flight", "GPUs", "TTFT ms", "simulated", "", "TPOT ms", "simulated", "",
             "rounds", "measured prices", "+-"),
            [(point.isl, point.osl, point.concurrency, point.tp, f"{point.ttft_ms:.0f}", row["ttft_ms"],
              percent(ttft), f"{point.tpot_ms:.2f}", row["tpot_ms"], percent(tpot), row["rounds"],
              f"{100 * float(row['measured']):.0f} %", f"{100 * float(row['bar']):.0f} %")
             for point, row, ttft, tpot in found]))
        for name, which in (("TTFT", 2), ("TPOT", 3)):
            sizes = [abs(one[which]) for one in found]
            parts.append(f"{name}: {len(sizes)} of {len(campaign.points)} points were run, median miss "
                         f"{statistics.median(sizes):.1%}, largest {max(sizes):.1%}.")
    return "\n\n".join(parts) + "\n"


def validate(options, root, built, cache, folder, version, say):
    """Runs the points with all of options.only's words in their names; the exit status."""
    campaigns = read(folder)
    results_file = folder / "results.tsv"
    rows = read_results(results_file)
    words = options.only.lower().split()
    failed = False
    chosen = 0
    for campaign in campaigns if not options.recorded else []:
        for point in campaign.points:
            if not all(word in f"{campaign.name} {point.name()}".lower() for word in words):
                continue
            chosen += 1
            with tempfile.TemporaryDirectory(prefix="phantora-serving-") as scratch:
                out = pathlib.Path(scratch)
                start = time.monotonic()
                try:
                    run(command(campaign, point, root, built, cache, out), options.timeout or 3600, {}, root)
                    row = outcome(campaign, point, out, time.monotonic() - start, version)
                except (RunError, OSError, ValueError, LookupError) as error:
                    say(f"{campaign.name} {point.name()}: failed: {error}")
                    failed = True
                    continue
            rows = [one for one in read_results(results_file) if (one["campaign"], *(int(one[name]) for name in (
                "isl", "osl", "concurrency", "tp"))) != (campaign.name, *point.key())] + [row]
            write_results(results_file, rows)
            say(f"{campaign.name} {point.name()}: TTFT {row['ttft_ms']} ms for {point.ttft_ms:g}, TPOT "
                f"{row['tpot_ms']} ms for {point.tpot_ms:g} ({row['rounds']} rounds, {row['real_s']} s)")
    if not options.recorded and chosen == 0:
        raise ValueError(f"--only: no point has {options.only!r} in its name")
    print(markdown(campaigns, rows), end="")
    return 1 if failed else 0
