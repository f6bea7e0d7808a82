"""What samples of a time say."""

import math
import statistics


def summary(samples, resolution):
    """Median and relative error of seconds; `resolution` in seconds."""
    median = statistics.median(samples)
    deviation = 1.4826 * statistics.median(abs(s - median) for s in samples)
    kept = sorted(s for s in samples if abs(s - median) <= max(5 * deviation, resolution))
    median = statistics.median(kept)
    spread = (kept[math.ceil(0.9 * len(kept)) - 1] - kept[int(0.1 * len(kept))]) / 2
    return {"time_us": round(median * 1e6, 4), "error": round(max(spread, resolution) / max(median, 1e-9), 4),
            "samples": len(samples), "rejected": len(samples) - len(kept)}
