"""Tables in Markdown of what came out of cases."""

import re
import shlex
import statistics

from validation.results import KNOWN, MISS, NO_VALUE, NOT_COMPARED, OK

BEGIN, END = "<!-- phantora-validate: begin -->", "<!-- phantora-validate: end -->"
PRICES = {"model": "the model alone", "rows": "with measured rows"}
MARK = {OK: "", MISS: "**misses**", KNOWN: "misses, known", NO_VALUE: "**not in the output**", NOT_COMPARED: ""}


def cell(text):
    return str(text).replace("|", "\\|").replace("\n", " ")


def number(value):
    if value is None:
        return ""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def percent(value):
    return "" if value is None else f"{round(100 * value, 1) + 0.0:+.1f} %"


def table(header, rows):
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    return "\n".join(lines + ["| " + " | ".join(map(cell, row)) + " |" for row in rows])


def heading(result):
    case = result.case
    where = result.gpu or case.cluster or (case.gpu if case.gpus == 1 else f"{case.gpus} x {case.gpu}")
    prices = f", {PRICES[result.prices]}" if len(case.prices) > 1 else ""
    return f"### {case.name}{prices}\n\n{case.what} On {where}."


def command(result):
    """As a user would type it."""
    case = result.case
    words = ["phantora-run", *case.phantora_options(result.prices, result.gpu), "--", *case.command]
    lines = [" ".join(f"{key}={shlex.quote(value)}" for key, value in case.environment.items())]
    lines = [" ".join(filter(None, [lines[0], *map(quoted, words)]))]
    if case.then:
        lines.append(" ".join(map(quoted, case.then)))
    return "\n".join("    " + line for line in lines)


def quoted(word):
    return word if re.fullmatch(r"[\w{}./:=,@%+-]+", word) else shlex.quote(word)


def result_table(result):
    """All rows of a result, below a heading, with the reasons of known misses."""
    parts = [heading(result), command(result)]
    if result.failure:
        parts.append(f"**Failed**: {result.failure}")
        return "\n\n".join(parts)
    if result.real_failure:
        parts.append(f"**Failed on this machine's GPU**: {result.real_failure}")
    here = bool(result.measured)
    header = ["what", "unit", "published", "simulated", "error", "tolerance", "", "used for", "source"]
    rows = []
    for row, verdict in result.rows():
        value = result.simulated.get(row.name)
        compared = verdict in (OK, MISS, KNOWN)
        line = [row.name, row.unit, "" if result.gpu else number(row.expected), number(value),
                percent(result.error(row)) if compared else "", f"{100 * row.tolerance:g} %", MARK[verdict],
                "" if row.use == "none" else row.use, row.source]
        if here:
            line[5:5] = [number(result.measured.get(row.name)), percent(result.real_error(row))]
        rows.append(line)
    if here:
        header[5:5] = ["measured here", "error"]
    parts.append(table(header, rows))
    why = [f"- {', '.join(names)}: {reason}" for reason, names in reasons(result).items()]
    parts += ["\n".join(why)] if why else []
    return "\n\n".join(parts)


def reasons(result):
    """Of the result's known misses: names of rows by reason."""
    found = {}
    for row, verdict in result.rows():
        if verdict == KNOWN:
            found.setdefault(row.miss, []).append(row.name)
    return found


def by_title(results):
    titles = {}
    for result in results:
        titles.setdefault(result.case.title, []).append(result)
    return titles


def full(results):
    """All tables, by the title of their files."""
    return "\n\n".join(f"## {title}\n\n" + "\n\n".join(map(result_table, members))
                       for title, members in by_title(results).items()) + "\n"


def median(errors):
    return f"{100 * statistics.median(map(abs, errors)):.1f} %" if errors else ""


def summary(results):
    """A line per file: how many numbers are within tolerance, how far they are off, and the same of those of
    campaigns that nothing was made from."""
    lines = []
    for title, members in by_title(results).items():
        ways = {result.prices for result in members}
        for prices in ("model", "rows"):
            if prices == "model" and "rows" in ways:
                continue  # the same numbers twice; both are among all results
            part = [result for result in members if result.prices == prices and not result.gpu]
            pairs = [(result, row, verdict) for result in part for row, verdict in result.rows()]
            if not pairs:
                continue
            compared = [(row, result.error(row)) for result, row, verdict in pairs if verdict in (OK, MISS, KNOWN)]
            new = [error for row, error in compared if row.use == "none"]
            lines.append([
                title + (f", {PRICES[prices]}" if len(ways) > 1 else ""),
                f"{sum(verdict == OK for *_, verdict in pairs)} of {len(pairs)}",
                median([error for _, error in compared]),
                percent(max((error for _, error in compared), key=abs, default=None)), len(new), median(new)])
    return table(["what", "within tolerance", "median error", "worst", "never used", "their median error"], lines)


def misses(results):
    """A line per file and reason: which numbers are outside of their tolerance, by how much, and why."""
    groups = {}
    for result in results:
        for row, verdict in result.rows():
            if verdict in (MISS, KNOWN, NO_VALUE):
                group = groups.setdefault((result.case.title, row.miss or "not explained"), {})
                # Of both ways to price, the first counts.
                group.setdefault(result.case.name, {}).setdefault(row.name, None if verdict == NO_VALUE else
                                                                  (result.error(row), len(result.case.rows)))
    lines = []
    for (_, reason), members in groups.items():
        names = [case if all(found and found[1] == 1 for found in rows.values()) else f"{case}: {', '.join(rows)}"
                 for case, rows in members.items()]
        errors = sorted(found[0] for rows in members.values() for found in rows.values() if found)
        lines.append(["; ".join(names), " to ".join(dict.fromkeys(map(percent, errors[:1] + errors[-1:]))), reason])
    return table(["what", "error", "why"], lines) if lines else "Nothing misses."


def update(text, results):
    """`text` with what lies between the markers replaced. Raises ValueError if they are not there once."""
    if text.count(BEGIN) != 1 or text.count(END) != 1 or text.index(BEGIN) > text.index(END):
        raise ValueError(f"it needs one line {BEGIN} and one {END} after it")
    head, tail = text[:text.index(BEGIN) + len(BEGIN)], text[text.index(END):]
    return f"{head}\n{summary(results)}\n\nWhat misses:\n\n{misses(results)}\n{tail}"
