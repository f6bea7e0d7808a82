"""What a load's records say: percentiles, throughput, goodput, and when a mean has settled."""

import math

PERCENTILES = (50, 90, 95, 99)
# Name, of a Record, unit's factor.
LATENCIES = (
    ("ttft", lambda record: record.ttft_s),
    ("tpot", lambda record: record.tpot_s),
    ("latency", lambda record: record.latency_s),
)


def percentile(values, part):
    """By linear interpolation between the nearest two."""
    ordered = sorted(values)
    place = (len(ordered) - 1) * part / 100
    low = math.floor(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


def statistics_of(values):
    """{"mean_s": ..., "p50_s": ...}; nothing without values."""
    values = [value for value in values if value is not None]
    if not values:
        return {}
    return {"mean_s": sum(values) / len(values), "min_s": min(values), "max_s": max(values)} | {
        f"p{part}_s": percentile(values, part) for part in PERCENTILES
    }


def meets(record, slo):
    """`slo`: {"ttft": s, "tpot": s, "latency": s}, or less of them."""
    if record.error:
        return False
    for name, of in LATENCIES:
        value = of(record)
        if name in slo and (value is None and name != "tpot" or value is not None and value > slo[name]):
            return False
    return True


def summarise(records, slo):
    """Of the records of the load itself, a JSON object."""
    load = [record for record in records if record.phase == "load"]
    good = [record for record in load if not record.error]
    result = {"requests": len(load), "failed": len(load) - len(good)}
    if not good:
        return result
    start = min(record.sent_s for record in load)
    seconds = max(record.last_token_s for record in good) - start
    tokens = sum(record.output_tokens for record in good)
    result |= {
        "seconds": seconds,
        "requests_per_s": len(good) / seconds,
        "input_tokens_per_s": sum(record.prompt_tokens for record in good) / seconds,
        "output_tokens_per_s": tokens / seconds,
        "output_tokens": tokens,
        "shorter": sum(record.output_tokens < record.asked_tokens for record in good),
    }
    for name, of in LATENCIES:
        result[name] = statistics_of([of(record) for record in good])
    result["itl"] = statistics_of([gap for record in good for gap in record.gaps_s])
    if slo:
        met = sum(meets(record, slo) for record in load)
        result["goodput"] = {"slo_s": slo, "requests_per_s": met / seconds, "share": met / len(load)}
    return result


class Settling:
    """Whether the means of a load have come to rest: `still` rounds one after the other, each of which
    moves the mean TTFT and TPOT of all so far by less than `part`."""

    def __init__(self, requests_a_round, part, still=2):
        self._round, self._part, self._still = requests_a_round, part, still
        self._means, self._calm = None, 0
        self.rounds = 0

    def add(self, records):
        """All records of the load so far; True once they have settled."""
        done = [record for record in records if record.phase == "load" and not record.error]
        while len(done) >= (self.rounds + 1) * self._round:
            self.rounds += 1
            so_far = done[: self.rounds * self._round]
            means = [
                sum(values) / len(values)
                for values in (
                    [record.ttft_s for record in so_far],
                    [record.tpot_s for record in so_far if record.tpot_s is not None] or [0],
                )
            ]
            calm = self._means is not None and all(
                abs(new - old) <= self._part * max(old, 1e-9) for new, old in zip(means, self._means)
            )
            self._calm = self._calm + 1 if calm else 0
            self._means = means
        return self._calm >= self._still


def lines(summary):
    """For people."""
    text = [f"requests           {summary['requests']} ({summary['failed']} failed)"]
    if "seconds" not in summary:
        return text
    if summary["shorter"]:
        text.append(f"shorter            {summary['shorter']} answers have fewer tokens than were asked for: "
                    "the server does not ignore the end of text, or ends at tokens that it has not computed (--execute)")
    text += [
        f"time               {summary['seconds']:.3f} s",
        f"throughput         {summary['requests_per_s']:.3f} requests/s, "
        f"{summary['input_tokens_per_s']:,.0f} input and {summary['output_tokens_per_s']:,.0f} output tokens/s",
        f"{'':18} {'mean':>10} {'p50':>10} {'p90':>10} {'p95':>10} {'p99':>10}",
    ]
    for name, title in (("ttft", "TTFT"), ("tpot", "TPOT"), ("itl", "between tokens"), ("latency", "end to end")):
        found = summary[name]
        if found:
            values = [found["mean_s"]] + [found[f"p{part}_s"] for part in PERCENTILES]
            text.append(f"{title:18} " + " ".join(f"{1e3 * value:8.2f}ms" for value in values))
    if "goodput" in summary:
        goodput = summary["goodput"]
        text.append(f"goodput            {goodput['requests_per_s']:.3f} requests/s ({goodput['share']:.1%})")
    for name, title in (("kv_use", "KV cache in use"), ("running", "running"), ("waiting", "waiting")):
        found = summary.get("server", {}).get(name)
        if found:
            text.append(f"{title:18} mean {found['mean']:.3g}, at most {found['most']:.3g}")
    parts = [(name, summary.get("server", {}).get(name)) for name in ("queue", "prefill", "decode")]
    if any(found for _, found in parts):
        text.append("of a request, mean " + ", ".join(
            f"{name} {1e3 * found['mean_s']:.2f}ms" for name, found in parts if found))
    if "preemptions" in summary.get("server", {}):
        text.append(f"preemptions        {summary['server']['preemptions']:.0f}")
    return text
