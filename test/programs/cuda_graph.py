#!/usr/bin/env python3
"""Captures a training step in a CUDA graph and replays it many times; also graphs single modules."""

import argparse
import time

import torch
import torch.nn as nn
import torch.nn.functional as F


def parse_args():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--replays", type=int, default=100)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--hidden", type=int, default=256)
    return parser.parse_args()


def make_model(hidden):
    return nn.Sequential(nn.Linear(hidden, hidden), nn.GELU(), nn.LayerNorm(hidden), nn.Linear(hidden, hidden)).cuda()


def on_side_stream(function, times=3):
    """Runs a function a few times on another stream, as one must before a capture."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(times):
            function()
    torch.cuda.current_stream().wait_stream(stream)


def train_whole_step(args):
    model = make_model(args.hidden)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, capturable=True)
    source = torch.zeros(args.batch, args.hidden, device="cuda")
    inputs = torch.empty_like(source)
    targets = torch.zeros_like(source)

    def step():
        inputs.copy_(source)
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cuda", dtype=torch.bfloat16, cache_enabled=False):
            loss = F.mse_loss(model(inputs), targets)
        loss.backward()
        optimizer.step()
        return loss

    on_side_stream(step)
    graph = torch.cuda.CUDAGraph()
    optimizer.zero_grad(set_to_none=True)
    with torch.cuda.graph(graph):
        loss = step()

    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    wall_start = time.perf_counter()
    start.record()
    for _ in range(args.replays):
        graph.replay()
    end.record()
    launched = time.perf_counter() - wall_start
    torch.cuda.synchronize()
    finished = time.perf_counter() - wall_start
    assert start.elapsed_time(end) > 0
    print(
        f"{args.replays} replays: {launched * 1e3:.2f} ms to launch, {finished * 1e3:.2f} ms to finish,"
        f" {start.elapsed_time(end):.2f} ms by events; loss {loss.item():.4f}",
        flush=True,
    )

    # New data between the replays; the copy inside the graph must see it.
    for _ in range(10):
        data = torch.randn(args.batch, args.hidden)
        source.copy_(data)
        graph.replay()
        assert torch.equal(inputs.cpu(), data)
    return graph


def copies_in_order(args):
    """A chain of copies through several streams inside one capture."""
    a, b, c, d = (torch.zeros(args.hidden, dtype=torch.int64, device="cuda") for _ in range(4))
    graph = torch.cuda.CUDAGraph()
    side = torch.cuda.Stream()
    with torch.cuda.graph(graph):
        b.copy_(a)
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            c.copy_(b)
        d.copy_(b)
        torch.cuda.current_stream().wait_stream(side)
        a.copy_(c)
    for i in range(5):
        values = torch.arange(args.hidden) + i
        a.copy_(values)
        graph.replay()
        graph.replay()
        for tensor in (a, b, c, d):
            assert torch.equal(tensor.cpu(), values)


def graphed_callables(args):
    first, second = make_model(args.hidden), make_model(args.hidden)
    samples = [torch.zeros(args.batch, args.hidden, device="cuda", requires_grad=True) for _ in range(2)]
    first, second = torch.cuda.make_graphed_callables((first, second), tuple((sample,) for sample in samples))
    optimizer = torch.optim.SGD([*first.parameters(), *second.parameters()], lr=0.1)
    for _ in range(10):
        optimizer.zero_grad()
        inputs = torch.randn(args.batch, args.hidden).cuda().requires_grad_()
        loss = second(first(inputs)).square().mean()
        loss.backward()
        optimizer.step()
    torch.cuda.synchronize()
    float(loss.item())
    assert inputs.grad.shape == inputs.shape


def main():
    args = parse_args()
    graph = train_whole_step(args)
    copies_in_order(args)
    graphed_callables(args)
    graph.reset()
    print("PASS cuda_graph")


if __name__ == "__main__":
    main()
