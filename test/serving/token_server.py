#!/usr/bin/env python3
"""Speaks OpenAI's completions API, and answers after sleeping: FIRST seconds before the first token, EACH
before every other. Up to SLOTS requests at a time, the others wait.

usage: token_server.py PORT FIRST EACH SLOTS
"""

import asyncio
import json
import signal
import sys

PORT, FIRST, EACH, SLOTS = int(sys.argv[1]), float(sys.argv[2]), float(sys.argv[3]), int(sys.argv[4])
IDLE = 5  # seconds, then a connection is closed; as uvicorn does
slots = asyncio.Semaphore(SLOTS)
running = waiting = 0


async def read_request(reader):
    line = (await reader.readuntil(b"\r\n")).decode()
    length = 0
    while (header := await reader.readuntil(b"\r\n")) != b"\r\n":
        name, _, value = header.decode().partition(":")
        if name.lower() == "content-length":
            length = int(value)
    method, path, _ = line.split()
    return method, path, json.loads(await reader.readexactly(length)) if length else {}


def whole(status, text):
    data = text.encode()
    return f"HTTP/1.1 {status} OK\r\nContent-Length: {len(data)}\r\n\r\n".encode() + data


async def answer(writer, body):
    global running, waiting

    def event(content):
        data = b"data: " + (content if isinstance(content, bytes) else json.dumps(content).encode()) + b"\n\n"
        writer.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")

    if len(body["prompt"]) > 4096:
        writer.write(whole(400, "the prompt is too long"))
        return
    writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    waiting += 1
    async with slots:
        waiting -= 1
        running += 1
        for token in range(body["max_tokens"]):
            await asyncio.sleep(EACH if token else FIRST)
            event({"choices": [{"text": "x"}]})
            await writer.drain()
        running -= 1
    event({"choices": [], "usage": {"completion_tokens": body["max_tokens"]}})
    event(b"[DONE]")
    writer.write(b"0\r\n\r\n")


async def serve(reader, writer):
    try:
        while True:
            method, path, body = await asyncio.wait_for(read_request(reader), IDLE)
            if (method, path) == ("POST", "/v1/completions"):
                await answer(writer, body)
            elif path == "/v1/models":
                writer.write(whole(200, json.dumps({"data": [{"id": "tokens"}]})))
            elif path == "/metrics":
                writer.write(whole(200, f'# HELP x\nvllm:num_requests_running{{engine="0"}} {running}\n'
                                        f"vllm:num_requests_waiting {waiting}\nvllm:num_preemptions_total 3\n"))
            else:
                writer.write(whole(200, ""))
            await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError, asyncio.TimeoutError):
        writer.close()


async def main():
    server = await asyncio.start_server(serve, "127.0.0.1", PORT)
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGINT, stop.set)
    async with server:
        await stop.wait()


asyncio.run(main())
