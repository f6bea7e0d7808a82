"""Cases of phantora-validate: what is run, and the numbers that should come out.

A case file is TOML; test/validation/README.md says what may be in it. Everything is checked before
anything runs: an error names the file, the case, the row and the key.
"""

import dataclasses
import re
import tomllib

PLACEHOLDERS = ("python", "frameworks", "root", "built", "scratch")
# What a number was used for: a rate or constant was made from it, it is a row of the database of measured
# kernels (and is compared with the model alone), something was made from others of its campaign, or nothing.
USES = ("rate", "row", "campaign", "none")
# How kernels are priced: by the model alone, or as users have it, with the measured rows.
PRICES = ("model", "rows")
HOST_TIMES = ("fixed", "measured", "zero")
DEFAULT_TIMEOUT_SECONDS = 600


class CaseError(Exception):
    """A case file that cannot be used: file, place in it, key, and what is wrong."""


@dataclasses.dataclass
class Row:
    """A number to compare with. `error` of a value is value / expected - 1; `tolerance` its largest size."""
    name: str
    expected: float
    unit: str
    tolerance: float
    source: str
    use: str
    miss: str | None  # why it is known to be outside of the tolerance
    json: str | None  # the key of the value in the JSON object that the program prints,
    regex: str | None  # or an expression whose group is the value
    scale: float  # the value read is multiplied by this to be in `unit`


@dataclasses.dataclass
class Case:
    """A command, where it runs, and what should come out."""
    name: str
    what: str
    file: str
    title: str  # of the file
    command: list
    then: list  # a second command, without phantora-run
    gpu: str | None
    gpus: int
    cluster: str | None
    ranks_per_host: int | None
    host_time: str
    prices: list
    options: list
    environment: dict
    timeout_seconds: float
    slow: bool
    rows: list

    def single_gpu(self):
        """A GPU of this machine can run it."""
        return self.gpu is not None and self.gpus == 1 and not self.then

    def compared(self, prices):
        """The rows that say something where kernels are priced so."""
        return [row for row in self.rows if prices == "model" or row.use != "row"]

    def phantora_options(self, prices, gpu=None):
        """Of phantora-run; `gpu` in the place of the case's own."""
        where = (["--cluster", self.cluster] if self.cluster else
                 ["--gpu", gpu or self.gpu, *(["--gpus", str(self.gpus)] if self.gpus > 1 else [])])
        if self.ranks_per_host:
            where += ["--ranks-per-host", str(self.ranks_per_host)]
        return [*where, "--host-time", self.host_time, *(["--model-only"] if prices == "model" else []),
                *self.options]


def text(value):
    return isinstance(value, str) and value != ""


def number(value):
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def positive(value):
    return number(value) and value > 0


def count(value):
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def texts(value):
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def text_table(value):
    return isinstance(value, dict) and all(isinstance(item, str) for item in value.values())


def one_of(words):
    return lambda value: value in words if isinstance(value, str) else False


def some_of(words):
    return lambda value: isinstance(value, list) and len(value) > 0 and all(item in words for item in value)


def tables(value):
    return isinstance(value, list) and len(value) > 0 and all(isinstance(item, dict) for item in value)


# Key: what its value must be, in words and as a check.
FILE_KEYS = {
    "title": ("a text", text),
    "sources": ("a table of texts", text_table),
    "reasons": ("a table of texts", text_table),
    "case": ("at least one [[case]]", tables),
}
ROW_DEFAULTS = {
    "unit": ("a text", text),
    "tolerance": ("a number above 0", positive),
    "source": ("a text", text),
    "use": ("one of " + ", ".join(USES), one_of(USES)),
    "json": ("a text", text),
    "regex": ("a text", text),
    "scale": ("a number other than 0", lambda value: number(value) and value != 0),
}
CASE_KEYS = {
    "name": ("letters, digits, '-', '_' and '.'",
             lambda value: isinstance(value, str) and re.fullmatch(r"[\w.-]+", value) is not None),
    "what": ("a text", text),
    "command": ("a list of texts", lambda value: texts(value) and len(value) > 0),
    "then": ("a list of texts", texts),
    "gpu": ("a text", text),
    "gpus": ("a number of GPUs", count),
    "cluster": ("a text", text),
    "ranks_per_host": ("a number of ranks", count),
    "host_time": ("one of " + ", ".join(HOST_TIMES), one_of(HOST_TIMES)),
    "prices": ("a list of " + ", ".join(PRICES), some_of(PRICES)),
    "options": ("a list of texts", texts),
    "environment": ("a table of texts", text_table),
    "timeout_s": ("a number above 0", positive),
    "slow": ("true or false", lambda value: isinstance(value, bool)),
    "rows": ("a list of tables", tables),
    **ROW_DEFAULTS,
}
ROW_KEYS = {
    "name": ("a text", text),
    "expected": ("a number other than 0", lambda value: number(value) and value != 0),
    "miss": ("a text", text),
    **ROW_DEFAULTS,
}


def check(place, table, keys, needed):
    """Raises CaseError unless `table` has what is needed, nothing unknown, and values of the right kind."""
    for key, value in table.items():
        if key not in keys:
            raise CaseError(f"{place}: key '{key}' is not known; known are {', '.join(keys)}")
        words, right = keys[key]
        if not right(value):
            raise CaseError(f"{place}: key '{key}' must be {words}, not {value!r}")
    for key in needed:
        if key not in table:
            raise CaseError(f"{place}: key '{key}' is missing")


def check_placeholders(place, key, words):
    for word in words:
        for name in re.findall(r"\{([a-z_]+)\}", word):
            if name not in PLACEHOLDERS:
                raise CaseError(f"{place}: key '{key}': {{{name}}} is not known; known are "
                                + ", ".join(f"{{{known}}}" for known in PLACEHOLDERS))


def read_row(place, table, case, sources, reasons):
    name = table.get("name")
    place = f"{place}, row '{name}'" if text(name) else f"{place}, a row without a name"
    check(place, table, ROW_KEYS, ["name", "expected"])
    values = {key: case[key] for key in ROW_DEFAULTS if key in case}
    if "json" in table or "regex" in table:
        values.pop("json", None)
        values.pop("regex", None)
    values |= table
    for key in ("unit", "source"):
        if key not in values:
            raise CaseError(f"{place}: key '{key}' is missing, here and in the case")
    if ("json" in values) == ("regex" in values):
        raise CaseError(f"{place}: key 'json' or 'regex' is needed, here or in the case, and not both")
    if values["source"] not in sources:
        raise CaseError(f"{place}: key 'source': '{values['source']}' is not in the file's [sources]")
    miss = values.get("miss")
    if miss is not None and miss not in reasons:
        raise CaseError(f"{place}: key 'miss': '{miss}' is not in the file's [reasons]")
    regex = values.get("regex")
    if regex is not None:
        regex = regex.replace("{row}", re.escape(name))
        try:
            groups = re.compile(regex, re.M).groups
        except re.error as error:
            raise CaseError(f"{place}: key 'regex': {error}") from error
        if groups != 1:
            raise CaseError(f"{place}: key 'regex' must have one group, not {groups}")
    return Row(name=name, expected=values["expected"], unit=values["unit"],
               tolerance=values.get("tolerance", 0.15), source=sources[values["source"]],
               use=values.get("use", "none"), miss=None if miss is None else reasons[miss],
               json=values["json"].replace("{row}", name) if "json" in values else None, regex=regex,
               scale=values.get("scale", 1))


def read_case(path, table, title, sources, reasons):
    place = f"{path}: case '{table['name']}'" if text(table.get("name")) else f"{path}: a case without a name"
    check(place, table, CASE_KEYS, ["name", "what", "command", "rows"])
    if ("gpu" in table) == ("cluster" in table):
        raise CaseError(f"{place}: key 'gpu' or 'cluster' is needed, and not both")
    for key in ("gpus",):
        if key in table and "cluster" in table:
            raise CaseError(f"{place}: key '{key}' is for a case with 'gpu'")
    if "ranks_per_host" in table and "gpu" in table:
        raise CaseError(f"{place}: key 'ranks_per_host' is for a case with 'cluster'")
    for key in ("command", "then", "options"):
        check_placeholders(place, key, table.get(key, []))
    rows = [read_row(place, row, table, sources, reasons) for row in table["rows"]]
    names = [row.name for row in rows]
    for name in names:
        if names.count(name) > 1:
            raise CaseError(f"{place}, row '{name}': key 'name': there are two of this name")
    return Case(name=table["name"], what=table["what"], file=str(path), title=title, command=table["command"],
                then=table.get("then", []), gpu=table.get("gpu"), gpus=table.get("gpus", 1),
                cluster=table.get("cluster"), ranks_per_host=table.get("ranks_per_host"),
                host_time=table.get("host_time", "fixed"), prices=table.get("prices", ["rows"]),
                options=table.get("options", []), environment=table.get("environment", {}),
                timeout_seconds=table.get("timeout_s", DEFAULT_TIMEOUT_SECONDS),
                slow=table.get("slow", False), rows=rows)


def read_file(path, name=None):
    """The cases of a file; `name` is how messages and tables call it. Raises CaseError."""
    name = name or str(path)
    try:
        with open(path, "rb") as file:
            table = tomllib.load(file)
    except OSError as error:
        raise CaseError(f"{name}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise CaseError(f"{name}: not TOML: {error}") from error
    check(name, table, FILE_KEYS, ["title", "sources", "case"])
    cases = [read_case(name, case, table["title"], table["sources"], table.get("reasons", {}))
             for case in table["case"]]
    check_names(cases)
    return cases


def check_names(cases):
    """Raises CaseError if two cases have one name."""
    files = {}
    for case in cases:
        if case.name in files:
            raise CaseError(f"{case.file}: case '{case.name}': key 'name': {files[case.name]} has one of this "
                            "name, too")
        files[case.name] = case.file
