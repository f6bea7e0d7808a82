#!/usr/bin/env python3
"""Moves tensors between host and GPU in every way that only copies, and checks the contents byte by byte."""

import threading

import torch
import torch.multiprocessing as mp
from torch.utils.data import DataLoader, Dataset

DTYPES = (
    torch.bool,
    torch.uint8,
    torch.int8,
    torch.int16,
    torch.int32,
    torch.int64,
    torch.float16,
    torch.bfloat16,
    torch.float32,
    torch.float64,
    torch.complex64,
    torch.complex128,
    torch.float8_e4m3fn,
    torch.float8_e5m2,
)


def random_tensor(dtype, count, seed=0):
    """Random bytes seen as a type; compared as bytes, so that not-a-numbers do not matter."""
    generator = torch.Generator().manual_seed(seed)
    if dtype == torch.bool:
        return torch.randint(2, (count,), generator=generator).bool()
    size = torch.empty((), dtype=dtype).element_size()
    return torch.randint(256, (count * size,), dtype=torch.uint8, generator=generator).view(dtype)


def as_bytes(tensor):
    return tensor.reshape(-1).view(torch.uint8)


def same(a, b):
    return a.dtype == b.dtype and a.shape == b.shape and torch.equal(as_bytes(a), as_bytes(b))


def copies():
    for dtype in DTYPES:
        # Small ones travel inside the command stream, large ones by the copy engine and through staging buffers.
        for count in (1, 7, 1000, 50_001, 1_000_003):
            data = random_tensor(dtype, count, seed=count)
            on_gpu = data.cuda()
            assert same(on_gpu.cpu(), data)
            assert same(on_gpu.clone().cpu(), data)
            target = torch.empty_like(on_gpu)
            target.copy_(on_gpu, non_blocking=True)
            pinned = torch.empty(count, dtype=dtype, pin_memory=True)
            pinned.copy_(target, non_blocking=True)
            torch.cuda.synchronize()
            assert same(pinned, data)
            again = pinned.to("cuda", non_blocking=True)
            torch.cuda.current_stream().synchronize()
            assert same(again.cpu(), data)


def slices():
    data = random_tensor(torch.int32, 100_000)
    on_gpu = data.cuda()
    assert same(on_gpu[333:77_777].cpu(), data[333:77_777])
    on_gpu[5000:6000].copy_(data[:1000])
    expected = data.clone()
    expected[5000:6000] = data[:1000]
    assert same(on_gpu.cpu(), expected)
    assert on_gpu[1234].item() == expected[1234].item()
    assert on_gpu[:50].tolist() == expected[:50].tolist()
    matrix = random_tensor(torch.float32, 300 * 400).view(300, 400)
    assert same(matrix.cuda()[10:20].cpu(), matrix[10:20])
    assert same(torch.tensor(12.5, device="cuda").cpu(), torch.tensor(12.5))


def streams_and_events():
    data = random_tensor(torch.uint8, 4_000_000).pin_memory()
    streams = [torch.cuda.Stream() for _ in range(4)]
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    tensor = torch.empty_like(data, device="cuda")
    start.record()
    with torch.cuda.stream(streams[0]):
        tensor.copy_(data, non_blocking=True)
        event = streams[0].record_event()
    # The tensor goes from stream to stream; each waits for the one before.
    for stream in streams[1:]:
        stream.wait_event(event)
        with torch.cuda.stream(stream):
            following = torch.empty_like(tensor)
            following.copy_(tensor, non_blocking=True)
            tensor.record_stream(stream)
            tensor = following
            event = stream.record_event()
    event.synchronize()
    assert event.query() and all(stream.query() for stream in streams)
    result = torch.empty_like(data, pin_memory=True)
    with torch.cuda.stream(streams[-1]):
        result.copy_(tensor, non_blocking=True)
    torch.cuda.current_stream().wait_stream(streams[-1])
    end.record()
    end.synchronize()
    assert same(result, data) and start.elapsed_time(end) > 0
    blocking = torch.cuda.Event(blocking=True)
    blocking.record()
    blocking.synchronize()


def threads():
    failures = []

    def work(seed):
        with torch.cuda.stream(torch.cuda.Stream()):
            for i in range(30):
                data = random_tensor(torch.float32, 20_000, seed * 1000 + i)
                if not same(data.cuda().clone().cpu(), data):
                    failures.append((seed, i))

    workers = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not failures, failures


def consume(tensors, replies, done):
    """Another process: checks the tensors that it receives and writes into them."""
    for i in range(3):
        tensor = tensors.get()
        assert tensor.is_cuda
        replies.put(same(tensor.cpu(), random_tensor(torch.int64, 100_000 + i, seed=i)))
        tensor.copy_(random_tensor(torch.int64, 100_000 + i, seed=100 + i))
        torch.cuda.synchronize()
        replies.put(True)
        del tensor
    done.wait()


def share_between_processes():
    context = mp.get_context("spawn")
    tensors, replies, done = context.Queue(), context.Queue(), context.Event()
    process = context.Process(target=consume, args=(tensors, replies, done))
    process.start()
    for i in range(3):
        tensor = random_tensor(torch.int64, 100_000 + i, seed=i).cuda()
        tensors.put(tensor)
        assert replies.get(timeout=60) and replies.get(timeout=60)
        assert same(tensor.cpu(), random_tensor(torch.int64, 100_000 + i, seed=100 + i))
    done.set()
    process.join()
    assert process.exitcode == 0


class Numbers(Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, index):
        return torch.full((1000,), index)


def forked_workers():
    """Workers forked from a process that uses the GPU already; they do not use it themselves."""
    seen = []
    for batch in DataLoader(Numbers(), batch_size=8, num_workers=2, pin_memory=True):
        on_gpu = batch.to("cuda", non_blocking=True)
        assert torch.equal(on_gpu.cpu(), batch)
        seen.extend(batch[:, 0].tolist())
    assert seen == list(range(64))


def main():
    for check in (copies, slices, streams_and_events, threads, share_between_processes, forked_workers):
        check()
        print(check.__name__, flush=True)
    print("PASS tensors")


if __name__ == "__main__":
    main()
