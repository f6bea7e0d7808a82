"""Which requests a load consists of: when each comes, how long it is, what it says.

Times are seconds from the load's start; lengths are tokens.
"""

import csv
import dataclasses
import datetime
import itertools
import random
from collections.abc import Iterator


class LoadError(Exception):
    """A load that cannot be made, in words for the user."""


@dataclasses.dataclass(frozen=True)
class Request:
    at: float | None  # when it comes; None: as soon as one of those in flight is over
    prompt: tuple[int, ...]  # token ids
    output_tokens: int


# Columns of traces that are published: seconds, or date and time; tokens of the prompt and of the answer.
TRACES = {
    "BurstGPT": ("Timestamp", "Request tokens", "Response tokens"),
    "Azure": ("TIMESTAMP", "ContextTokens", "GeneratedTokens"),
}


@dataclasses.dataclass(frozen=True)
class Shape:
    """What all requests of a load have in common."""

    first_token: int = 1000  # ids of prompts are from here on
    tokens: int = 10000  # so many of them
    shared_prefix: int = 0  # tokens that all prompts begin with
    seed: int = 0


class Prompts:
    """Prompts that have nothing in common but what they are to."""

    def __init__(self, shape: Shape):
        self._shape = shape
        self._random = random.Random(shape.seed)
        self._prefix = self._draw(shape.shared_prefix)

    def _draw(self, count):
        first, tokens = self._shape.first_token, self._shape.tokens
        return tuple(first + int(self._random.random() * tokens) for _ in range(count))

    def new(self, tokens: int) -> tuple[int, ...]:
        return (self._prefix + self._draw(max(tokens - len(self._prefix), 0)))[:tokens]

    def next_turn(self, before: tuple[int, ...], answered: int, tokens: int) -> tuple[int, ...]:
        """A conversation goes on: all of it so far, and what is new. The answer's tokens are made up."""
        return before + self._draw(answered) + self._draw(tokens)


def closed_loop(prompts: Prompts, prompt_tokens: int, output_tokens: int) -> Iterator[Request]:
    """One comes as one goes, without end."""
    while True:
        yield Request(None, prompts.new(prompt_tokens), output_tokens)


def arrivals(rate: float, burstiness: float, seed: int) -> Iterator[float]:
    """Times between which there are gaps of a Gamma distribution with mean 1 / rate, 1 / burstiness of
    whose coefficient of variation is squared: 1 is Poisson's, less is more bursty."""
    draw = random.Random(f"arrivals {seed}")
    at = 0.0
    while True:
        at += draw.gammavariate(burstiness, 1 / (rate * burstiness))
        yield at


def open_loop(
    prompts: Prompts, times: Iterator[float], prompt_tokens: int, output_tokens: int
) -> Iterator[Request]:
    for at in times:
        yield Request(at, prompts.new(prompt_tokens), output_tokens)


def _seconds(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return datetime.datetime.fromisoformat(text).timestamp()


def read_trace(path: str) -> list[tuple[float, int, int]]:
    """(seconds since the first, prompt tokens, output tokens) of each request of a CSV file with the columns
    of BurstGPT's or of Azure's trace, in the order in which they come. Answers of no tokens (BurstGPT has
    them for requests that failed) are left out. Raises LoadError."""
    try:
        with open(path, newline="", encoding="utf-8") as file:
            rows = csv.DictReader(file)
            names = rows.fieldnames or []
            found = [columns for columns in TRACES.values() if set(columns) <= set(names)]
            if not found:
                known = "; ".join(f"{name}: {', '.join(columns)}" for name, columns in TRACES.items())
                raise LoadError(f"{path}: columns {', '.join(names)} are of no known trace ({known})")
            at, prompt, output = found[0]
            read = []
            for number, row in enumerate(rows, 2):
                try:
                    read.append((_seconds(row[at]), int(float(row[prompt])), int(float(row[output]))))
                except (TypeError, ValueError) as error:
                    raise LoadError(f"{path}, line {number}: {error}") from error
    except OSError as error:
        raise LoadError(f"{path}: {error.strerror}") from error
    read = sorted(row for row in read if row[1] > 0 and row[2] > 0)
    if not read:
        raise LoadError(f"{path}: no requests")
    return [(at - read[0][0], prompt, output) for at, prompt, output in read]


def from_trace(prompts: Prompts, trace: list[tuple[float, int, int]], speedup: float) -> Iterator[Request]:
    for at, prompt_tokens, output_tokens in trace:
        yield Request(at / speedup, prompts.new(prompt_tokens), output_tokens)


def take(requests: Iterator[Request], count: int | None) -> Iterator[Request]:
    return requests if count is None else itertools.islice(requests, count)
