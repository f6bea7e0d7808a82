"""What came out of cases: verdicts, and the JSON in which they are kept."""

import dataclasses
import json

OK, MISS, KNOWN, NO_VALUE, NOT_COMPARED = "ok", "miss", "known miss", "no value", "not compared"


@dataclasses.dataclass
class Result:
    """Of a case with one way to price kernels. Values are by row; None was not in the output."""
    case: object
    prices: str
    simulated: dict = dataclasses.field(default_factory=dict)
    measured: dict = dataclasses.field(default_factory=dict)  # on this machine's GPU
    failure: str = ""  # of the simulation; then there are no values
    real_failure: str = ""
    version: str = ""  # what was run
    gpu: str | None = None  # simulated in the place of the case's own: nothing published is compared

    def rows(self):
        """Pairs of a row and its verdict."""
        if self.failure:
            return []
        return [(row, self.verdict(row)) for row in self.case.compared(self.prices)]

    def verdict(self, row):
        if self.simulated.get(row.name) is None:
            return NO_VALUE
        if self.gpu is not None:
            return NOT_COMPARED
        if abs(self.error(row)) <= row.tolerance:
            return OK
        return MISS if row.miss is None else KNOWN

    def error(self, row):
        return self.simulated[row.name] / row.expected - 1

    def real_error(self, row):
        """Of the simulation, against what was measured here; None where it was not."""
        value, measured = self.simulated.get(row.name), self.measured.get(row.name)
        return value / measured - 1 if value is not None and measured else None

    def passed(self):
        return not self.failure and not self.real_failure and all(
            verdict in (OK, KNOWN, NOT_COMPARED) for _, verdict in self.rows())


def rounded(value):
    return None if value is None else float(f"{value:.6g}")


def to_json(results):
    """A text: cases, each with its rows."""
    cases = []
    for result in results:
        case = result.case
        rows = []
        for row, verdict in result.rows():
            measured = result.measured.get(row.name)
            rows.append({
                "name": row.name, "unit": row.unit, "simulated": rounded(result.simulated.get(row.name)),
                "expected": None if result.gpu else row.expected,
                "error": rounded(result.error(row)) if verdict in (OK, MISS, KNOWN) else None,
                "tolerance": row.tolerance, "verdict": verdict, "source": row.source, "use": row.use,
                "reason": row.miss,
                **({"measured_here": rounded(measured), "error_here": rounded(result.real_error(row))}
                   if result.measured else {})})
        cases.append({"name": case.name, "what": case.what, "file": case.file, "prices": result.prices,
                      "gpu": result.gpu or case.gpu, "cluster": case.cluster, "version": result.version,
                      "failure": result.failure or None, "real_failure": result.real_failure or None,
                      "rows": rows})
    return json.dumps({"cases": cases}, indent=1) + "\n"


def from_json(text, cases):
    """Results whose values were kept, of the cases that still exist. Raises ValueError."""
    by_name = {case.name: case for case in cases}
    results = []
    try:
        for kept in json.loads(text)["cases"]:
            case = by_name.get(kept["name"])
            if case is None or kept["failure"] or kept["prices"] not in case.prices:
                continue
            results.append(Result(case, kept["prices"], version=kept["version"],
                                  simulated={row["name"]: row["simulated"] for row in kept["rows"]}))
    except (KeyError, TypeError) as error:
        raise ValueError(f"it has no {error}") from error
    return results


def merged(kept, new):
    """`new` results in the place of those that were kept."""
    fresh = {(result.case.name, result.prices) for result in new if not result.gpu}
    return [result for result in kept if (result.case.name, result.prices) not in fresh] + [
        result for result in new if not result.gpu and not result.failure]
