"""Sends requests to a server that speaks OpenAI's completions API, and notes when their tokens come.

Times are of time.monotonic(), seconds: simulated ones under phantora-run.
"""

import asyncio
import dataclasses
import json
import time
import urllib.parse


@dataclasses.dataclass
class Record:
    """What became of a request."""

    phase: str  # "warm-up" or "load"
    prompt_tokens: int
    asked_tokens: int
    sent_s: float
    first_token_s: float | None = None
    last_token_s: float | None = None
    output_tokens: int = 0
    gaps_s: list[float] = dataclasses.field(default_factory=list)  # between pieces of the answer
    error: str = ""

    @property
    def ttft_s(self):
        return None if self.first_token_s is None else self.first_token_s - self.sent_s

    @property
    def tpot_s(self):
        """Mean time of an output token after the first; None if there is none."""
        if self.output_tokens < 2 or self.last_token_s is None:
            return None
        return (self.last_token_s - self.first_token_s) / (self.output_tokens - 1)

    @property
    def latency_s(self):
        return None if self.last_token_s is None else self.last_token_s - self.sent_s


class HttpError(Exception):
    pass


class Connection:
    """HTTP/1.1 to one server, one request at a time."""

    def __init__(self, url):
        parts = urllib.parse.urlsplit(url)
        if parts.scheme != "http" or not parts.hostname:
            raise HttpError(f"{url}: must be http://HOST:PORT")
        self._host, self._port = parts.hostname, parts.port or 80
        self._reader = self._writer = None

    def close(self):
        if self._writer is not None:
            self._writer.close()
        self._reader = self._writer = None

    async def send(self, method, path, body=None):
        """Yields the pieces of the answer's body as they come. Raises HttpError, OSError and
        asyncio.IncompleteReadError."""
        data = b"" if body is None else json.dumps(body).encode()
        head = f"{method} {path} HTTP/1.1\r\nHost: {self._host}:{self._port}\r\n"
        if data:
            head += f"Content-Type: application/json\r\nContent-Length: {len(data)}\r\n"
        try:
            status, headers = await self._ask(head.encode() + b"\r\n" + data)
            if status != 200:
                text = b"".join([piece async for piece in self._body(headers)])
                raise HttpError(f"{method} {path}: {status}: {text.decode(errors='replace')[:300]}")
            async for piece in self._body(headers):
                yield piece
            if headers.get("connection", "").lower() == "close":
                self.close()
        except BaseException:
            self.close()
            raise

    async def _ask(self, message):
        """Status and headers of the answer. Servers close connections that idle: one that was used before and
        fails before it answers is opened anew, once."""
        used = self._writer is not None
        while True:
            try:
                if self._writer is None:
                    self._reader, self._writer = await asyncio.open_connection(self._host, self._port)
                self._writer.write(message)
                await self._writer.drain()
                return await self._head()
            except (ConnectionError, asyncio.IncompleteReadError):
                if not used:
                    raise
                self.close()
                used = False

    async def _head(self):
        words = (await self._reader.readuntil(b"\r\n")).split()
        if len(words) < 2 or not words[1].isdigit():
            raise HttpError("the server does not speak HTTP")
        headers = {}
        while (line := await self._reader.readuntil(b"\r\n")) != b"\r\n":
            name, _, value = line.decode("latin-1").partition(":")
            headers[name.strip().lower()] = value.strip()
        return int(words[1]), headers

    async def _body(self, headers):
        if headers.get("transfer-encoding", "").lower() == "chunked":
            while size := int((await self._reader.readuntil(b"\r\n")).split(b";")[0], 16):
                piece = await self._reader.readexactly(size)
                await self._reader.readexactly(2)
                yield piece
            await self._reader.readuntil(b"\r\n")
        elif length := int(headers.get("content-length", 0)):
            yield await self._reader.readexactly(length)


async def get(url, path):
    """The body of a page. Raises as Connection.send."""
    connection = Connection(url)
    try:
        return b"".join([piece async for piece in connection.send("GET", path)])
    finally:
        connection.close()


async def events(pieces):
    """The data of server-sent events, each as soon as its last byte is there."""
    rest = b""
    async for piece in pieces:
        rest += piece
        while b"\n" in rest:
            line, rest = rest.split(b"\n", 1)
            if line.startswith(b"data:"):
                yield line[5:].strip()


async def complete(connection, model, request, phase):
    """Sends a Request of `requests`; returns its Record. Errors of the server are in it."""
    record = Record(phase, len(request.prompt), request.output_tokens, time.monotonic())
    body = {
        "model": model,
        "prompt": list(request.prompt),
        "max_tokens": request.output_tokens,
        "ignore_eos": True,
        "temperature": 0,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    try:
        async for data in events(connection.send("POST", "/v1/completions", body)):
            if data == b"[DONE]":
                continue
            now = time.monotonic()
            event = json.loads(data)
            if "error" in event:
                record.error = str(event["error"])[:300]
                continue
            if event.get("usage"):
                record.output_tokens = event["usage"].get("completion_tokens", record.output_tokens)
            if not event.get("choices"):
                continue
            if record.first_token_s is None:
                record.first_token_s = now
            else:
                record.gaps_s.append(now - record.last_token_s)
            record.last_token_s = now
    except Exception as error:  # pylint: disable=broad-except  # whatever a server sends
        connection.close()
        record.error = f"{type(error).__name__}: {error}"[:300]
    if not record.error and record.first_token_s is None:
        record.error = "an answer without tokens"
    return record
