#!/usr/bin/env python3
"""phantora-load: sends a load to a server of language models and says how it was served.

  phantora-load --closed 32 --rounds 10 --input 1024 --output 128 -- vllm serve MODEL ...
  phantora-load --rate 4 --requests 200 --input 1024 --output 128 --slo ttft=0.5,tpot=0.05 -- vllm serve ...
  phantora-load --trace BurstGPT.csv --requests 500 --url http://127.0.0.1:8000

With a command it starts that server, waits until it answers, and ends it afterwards; without one it takes
the server of --url. Under phantora-run all times are simulated:

  phantora-run --gpus 2 --report report -- tools/serving/phantora_load.py --closed 8 -- \\
      vllm serve MODEL --tensor-parallel-size 2

The server has to speak OpenAI's completions API (vLLM, SGLang and others do). Prompts are token ids drawn
at random, of which no two begin alike; answers have as many tokens as asked for (ignore_eos), so that
nothing depends on what the model computes; if a server ends them earlier, the summary says so.

Exit status: 0, or 1 if requests failed or the server did not start, or 2 if an option is wrong.
"""

import argparse
import asyncio
import dataclasses
import json
import os
import signal
import sys
import time

import client
import loads
import summary as summaries
from server_metrics import ServerMetrics

GRACE_S = 30  # between asking a server to end and ending it


def parse_slo(text):
    slo = {}
    for word in filter(None, text.split(",")):
        name, _, value = word.partition("=")
        if name not in ("ttft", "tpot", "latency"):
            raise argparse.ArgumentTypeError(f"{word}: must be ttft=S, tpot=S or latency=S")
        try:
            slo[name] = float(value)
        except ValueError:
            raise argparse.ArgumentTypeError(f"{word}: {value!r} is no number of seconds") from None
    return slo


def positive(kind):
    def parse(text):
        value = kind(text)
        if value <= 0:
            raise argparse.ArgumentTypeError(f"{text}: must be more than 0")
        return value

    parse.__name__ = kind.__name__
    return parse


def parse_args():
    count = positive(int)
    seconds = positive(float)
    parser = argparse.ArgumentParser(
        prog="phantora-load", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    when = parser.add_mutually_exclusive_group(required=True)
    when.add_argument("--closed", metavar="N", type=count, help="N requests are in flight at any time")
    when.add_argument("--rate", metavar="R", type=seconds, help="R requests a second, at random times")
    when.add_argument("--trace", metavar="FILE", help="a CSV file with BurstGPT's or Azure's columns")
    parser.add_argument("--burstiness", metavar="B", type=seconds, default=1.0,
                        help="of --rate: gaps are Gamma distributed with this shape; 1 (default) is Poisson's, less is "
                             "burstier")
    parser.add_argument("--speedup", metavar="X", type=seconds, default=1.0, help="of --trace: X times as fast")
    parser.add_argument("--input", metavar="TOKENS", type=count, default=1024, help="of each prompt (1024)")
    parser.add_argument("--output", metavar="TOKENS", type=count, default=128, help="of each answer (128)")
    parser.add_argument("--shared-prefix", metavar="TOKENS", type=int, default=0,
                        help="so many are the same in all prompts (0)")
    parser.add_argument("--turns", metavar="N", type=count, default=1,
                        help="of --closed: conversations of N requests, each with all of the ones before in its prompt")
    parser.add_argument("--requests", metavar="N", type=count, help="send N in all (default: of --closed see --rounds, "
                                                                    "of --rate 100, of --trace all)")
    parser.add_argument("--rounds", metavar="N", type=count, default=10,
                        help="of --closed: N x as many as in flight (10)")
    parser.add_argument("--settled", metavar="PART", type=seconds,
                        help="of --closed: end earlier, when two rounds one after the other each move the mean TTFT "
                             "and TPOT of all so far by less than this part, 0.01 say")
    parser.add_argument("--warm-up", metavar="N", type=int, default=0,
                        help="requests sent before, in flight like those of --closed, which do not count (0)")
    parser.add_argument("--seed", metavar="N", type=int, default=0, help="of prompts and times (0)")
    parser.add_argument("--slo", metavar="ttft=S,...", type=parse_slo, default={},
                        help="what a request has to meet to count as goodput: ttft, tpot, latency, in seconds")
    parser.add_argument("--url", default="http://127.0.0.1:8000", help="of the server (%(default)s)")
    parser.add_argument("--model", help="its name there (default: the first that the server lists)")
    parser.add_argument("--start-timeout", metavar="S", type=seconds, default=1800.0,
                        help="how long the server may take to start (1800)")
    parser.add_argument("--metrics-period", metavar="S", type=seconds, default=1.0,
                        help="how often to look at the server's /metrics (1)")
    parser.add_argument("--json", metavar="FILE", help="write all requests and the summary here")
    parser.add_argument("server", nargs="*", metavar="-- COMMAND", help="starts the server")
    words = sys.argv[1:]
    command = []
    if "--" in words:
        at = words.index("--")
        words, command = words[:at], words[at + 1 :]
    options = parser.parse_args(words)
    if options.server:
        parser.error(f"{options.server[0]}: the server's command goes behind --")
    options.server = command
    try:
        client.Connection(options.url)
        options.requests_of_trace = loads.read_trace(options.trace) if options.trace else None
    except (client.HttpError, loads.LoadError, ValueError) as error:
        parser.error(str(error))
    if options.turns > 1 and not options.closed:
        parser.error("--turns is for --closed")
    if options.settled and not options.closed:
        parser.error("--settled is for --closed")
    return options


def say(text):
    print(f"phantora-load: {text}", file=sys.stderr, flush=True)


class ServerError(Exception):
    pass


async def start_server(options):
    """The process, or None; returns when the server answers. Raises ServerError."""
    process = None
    if options.server:
        try:
            process = await asyncio.create_subprocess_exec(*options.server, start_new_session=True)
        except OSError as error:
            raise ServerError(f"{options.server[0]}: {error.strerror}") from error
    try:
        await wait_for_answer(options, process)
    except BaseException:
        await end_server(process)
        raise
    return process


async def wait_for_answer(options, process):
    """Raises ServerError."""
    until = time.monotonic() + options.start_timeout
    while True:
        try:
            await client.get(options.url, "/health")
            return
        except (client.HttpError, OSError, asyncio.IncompleteReadError) as error:
            last = error
        if process is not None and process.returncode is not None:
            raise ServerError(f"the server ended with status {process.returncode} before it answered")
        if time.monotonic() > until:
            raise ServerError(f"{options.url} did not answer within {options.start_timeout:g} s: {last}")
        await asyncio.sleep(0.5)


async def end_server(process):
    if process is None or process.returncode is not None:
        return
    process.send_signal(signal.SIGINT)
    try:
        await asyncio.wait_for(process.wait(), GRACE_S)
    except asyncio.TimeoutError:
        say(f"the server has not ended {GRACE_S} s after SIGINT: killed")
        os.killpg(process.pid, signal.SIGKILL)  # of a session of its own
        await process.wait()


async def model_of(options):
    if options.model:
        return options.model
    try:
        listed = json.loads(await client.get(options.url, "/v1/models"))
        return listed["data"][0]["id"]
    except (client.HttpError, OSError, asyncio.IncompleteReadError, ValueError, LookupError, TypeError) as error:
        raise ServerError(f"{options.url}/v1/models names no model ({error}); --model does") from error


class Load:
    def __init__(self, options, model):
        self._options, self._model = options, model
        self._prompts = loads.Prompts(
            loads.Shape(shared_prefix=options.shared_prefix, seed=options.seed)
        )
        self.records = []
        self.start_s = None
        self.settled = None

    async def _serve(self, connection, request, phase):
        record = await client.complete(connection, self._model, request, phase)
        self.records.append(record)
        return record

    async def _closed(self, count, in_flight, phase, settling):
        """`count` requests, `in_flight` at a time."""
        sent = 0
        over = False

        async def worker():
            nonlocal sent, over
            connection = client.Connection(self._options.url)
            request, turn = None, 0
            while sent < count and not over:
                sent += 1
                if request is None or turn % self._options.turns == 0:
                    request = next(loads.closed_loop(self._prompts, self._options.input, self._options.output))
                else:
                    request = dataclasses.replace(
                        request,
                        prompt=self._prompts.next_turn(request.prompt, self._options.output, self._options.input),
                    )
                turn += 1
                record = await self._serve(connection, request, phase)
                if record.error:
                    request = None
                if settling is not None and settling.add(self.records):
                    over = True
            connection.close()

        await asyncio.gather(*(worker() for _ in range(min(in_flight, count))))

    async def _open(self, requests):
        start = time.monotonic()
        free, tasks = [], set()

        async def serve(request):
            connection = free.pop() if free else client.Connection(self._options.url)
            await self._serve(connection, request, "load")
            free.append(connection)

        for request in requests:
            await asyncio.sleep(max(0.0, start + request.at - time.monotonic()))
            task = asyncio.create_task(serve(request))
            tasks.add(task)
            task.add_done_callback(tasks.discard)
        while tasks:
            await asyncio.wait(tasks)
        for connection in free:
            connection.close()

    async def warm_up(self):
        if self._options.warm_up > 0:
            await self._closed(self._options.warm_up, self._options.closed or 1, "warm-up", None)

    async def run(self):
        options = self._options
        self.start_s = time.monotonic()
        if options.closed:
            count = options.requests or options.rounds * options.closed
            settling = summaries.Settling(options.closed, options.settled) if options.settled else None
            await self._closed(count, options.closed, "load", settling)
            if settling is not None:
                self.settled = {"part": options.settled, "rounds": settling.rounds,
                                "settled": settling.add(self.records)}
            return
        if options.trace:
            requests = loads.from_trace(self._prompts, options.requests_of_trace, options.speedup)
        else:
            times = loads.arrivals(options.rate, options.burstiness, options.seed)
            requests = loads.open_loop(self._prompts, times, options.input, options.output)
        count = options.requests or (None if options.trace else 100)
        await self._open(loads.take(requests, count))


def write_json(path, options, load, metrics, result):
    def since_start(seconds):
        return None if seconds is None else seconds - load.start_s

    requests = []
    for record in sorted(load.records, key=lambda record: record.sent_s):
        if record.phase != "load":
            continue
        requests.append({
            "sent_s": since_start(record.sent_s), "first_token_s": since_start(record.first_token_s),
            "last_token_s": since_start(record.last_token_s), "prompt_tokens": record.prompt_tokens,
            "output_tokens": record.output_tokens, "ttft_s": record.ttft_s, "tpot_s": record.tpot_s,
            "latency_s": record.latency_s, "error": record.error,
        })
    samples = [sample | {"at_s": since_start(sample["at_s"])} for sample in metrics.samples]
    words = {name: value for name, value in vars(options).items()
             if name not in ("json", "server", "requests_of_trace")}
    content = {"schema": "phantora load", "schema_version": 1, "options": words, "server": options.server,
               "summary": result, "requests": requests, "server_samples": samples}
    with open(path, "w", encoding="utf-8") as file:
        json.dump(content, file, indent=1)
        file.write("\n")


async def run(options):
    # Ends like Ctrl-C, so that the server is ended too.
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, asyncio.current_task().cancel)
    process = await start_server(options)
    try:
        model = await model_of(options)
        say(f"{options.url} serves {model}")
        load = Load(options, model)
        metrics = ServerMetrics(options.url, options.metrics_period)
        await load.warm_up()
        await metrics.look()
        looking = asyncio.create_task(metrics.run())
        await load.run()
        looking.cancel()
        await metrics.look()
    finally:
        await end_server(process)
    result = summaries.summarise(load.records, options.slo)
    result["server"] = metrics.summary()
    if load.settled is not None:
        result["settling"] = load.settled
    print("\n".join(summaries.lines(result)), flush=True)
    failed = next((record.error for record in load.records if record.error), "")
    if failed:
        say(f"a request failed: {failed}")
    folder = os.environ.get("PHANTORA_REPORT")  # phantora-run's --report, which has them in its page, too
    for path in filter(None, (options.json, folder and os.path.join(folder, "requests.json"))):
        write_json(path, options, load, metrics, result)
    return 1 if failed else 0


def main():
    options = parse_args()
    try:
        sys.exit(asyncio.run(run(options)))
    except (KeyboardInterrupt, asyncio.CancelledError):
        say("interrupted")
        sys.exit(1)
    except (ServerError, client.HttpError) as error:
        say(str(error))
        sys.exit(1)
    except OSError as error:
        say(f"{error.filename or ''}: {error.strerror}")
        sys.exit(1)


if __name__ == "__main__":
    main()
