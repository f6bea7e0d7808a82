"""All operations: each family in its own order, level 0 before 1, before 2."""

import functools

from bench import device_ops as device
from bench import host_ops as host
from bench.ops import OPS, define


def define_products():
    """Products of matrices of equal sides, the most important types and sizes."""
    products = [(size,) * 3 for size in (4096, 8192, 2048, 1024, 512)]
    for m, n, k in products:
        define("gemm", "mm", 0, device.mm, dtype="bf16", m=m, n=n, k=k, layout="nn")
    for dtype in ("fp16", "tf32", "fp8", "fp32", "int8"):
        for size in (4096, 8192, 1024):
            define("gemm", "mm", 0, device.mm, dtype=dtype, m=size, n=size, k=size,
                   layout="nt" if dtype in ("fp8", "int8") else "nn")


def define_attention():
    """Attention, forward and backward."""
    for causal in (False, True):
        for width, heads in ((64, 32), (128, 16)):
            for sequence in (2048, 8192, 512, 1024, 4096, 16384):
                for direction in ("forward", "backward"):
                    define("attention", "sdpa", 0 if not causal and sequence in (2048, 8192) else 1, device.sdpa,
                           dtype="bf16", batch=16384 // sequence, heads=heads, sequence=sequence,
                           width=width, causal=causal, direction=direction)
                    define("attention", "sdpa", 1, device.sdpa, dtype="bf16", batch=16384 // sequence, heads=heads,
                           sequence=sequence, width=width, causal=causal, direction=direction,
                           backend="CUDNN_ATTENTION")


def define_elementwise():
    """Elementwise kernels, by size."""
    for what in ("add", "gelu", "convert", "scale", "silu", "exp", "where", "fill", "dropout", "uniform",
                 "normal", "gelu_backward", "silu_backward", "add_mixed"):
        for dtype in ("bf16", "fp32"):
            for power in (26, 22, 18, 14, 28, 24, 20, 16, 12):
                level = 0 if what in ("add", "gelu", "convert") and power in (26, 22, 18) else (
                    1 if power % 4 == 2 else 2)
                define("elementwise", what, level, functools.partial(device.elementwise, what),
                       dtype=dtype, numel=1 << power)


def define_reductions():
    """Reductions to rows, columns and one number."""
    for what in ("sum_rows", "sum_columns", "sum", "norm", "amax_rows", "argmax_rows", "mean_rows"):
        for dtype in ("bf16", "fp32"):
            sizes = ((8192, 4096), (4096, 1024), (32768, 8192), (512, 512), (64, 65536))
            if what == "sum_columns":  # gradients of biases
                sizes += ((16384, 512), (4096, 4096), (16384, 2048), (2048, 8192), (4096, 1536))
            for n, width in sizes:
                define("reduction", what, 0 if (n, width) == (8192, 4096) and dtype == "bf16" else 1,
                       functools.partial(device.reduction, what), dtype=dtype, rows=n, columns=width)


def define_rows():
    """Norms, softmaxes, losses and embeddings."""
    for what in ("layer_norm", "softmax", "rms_norm", "log_softmax"):
        for direction in ("forward", "backward"):
            for dtype in ("bf16", "fp32"):
                for n, width in ((8192, 4096), (8192, 1024), (16384, 768), (2048, 8192), (512, 4096),
                                 (8192, 128), (1024, 50304)):
                    define("rows", what, 0 if n == 8192 and width > 128 and dtype == "bf16" else 1,
                           functools.partial(device.rows, what), dtype=dtype, rows=n, columns=width,
                           direction=direction)
    for direction in ("forward", "backward"):
        for n, width in ((8192, 50304), (8192, 128256), (8192, 32000), (1024, 50304)):
            for dtype in ("bf16", "fp32"):
                define("rows", "cross_entropy", 0 if width == 50304 and dtype == "bf16" else 1,
                       functools.partial(device.rows, "cross_entropy"), dtype=dtype, rows=n, columns=width,
                       direction=direction)
        for tokens, vocabulary, width in ((8192, 50304, 4096), (8192, 50304, 768), (16384, 128256, 4096)):
            define("index", "embedding", 0 if width == 768 else 1, device.embedding, dtype="bf16", tokens=tokens,
                   vocabulary=vocabulary, width=width, direction=direction)


def define_indexing():
    """What moves elements by indices."""
    for what in ("index_select", "topk", "cumsum", "sort"):
        for n, width in ((8192, 4096), (1024, 1024)):
            define("index", what, 1, functools.partial(device.index, what), dtype="bf16", rows=n,
                   columns=width)


def define_optimizers():
    """Optimizers' steps."""
    for what in ("adamw_fused", "adamw_foreach", "sgd_fused", "sgd_foreach", "clip"):
        for tensors, numel in ((16, 1 << 20), (64, 1 << 22), (148, 1 << 16)):
            define("optimizer", what, 0 if tensors == 16 else 1, functools.partial(device.optimizer, what),
                   dtype="fp32", tensors=tensors, numel=numel)


def define_layouts():
    """What changes only where elements are."""
    for what in ("transpose", "cat", "heads", "cat_columns", "stack", "cat_strided", "heads_back", "cat_3"):
        for dtype in ("bf16", "fp32"):
            for n, width in ((8192, 4096), (1024, 1024), (32768, 4096)):
                define("layout", what, 0 if n == 8192 and dtype == "bf16" else 1,
                       functools.partial(device.layout, what), dtype=dtype, rows=n, columns=width)


def define_convolutions():
    """Convolutions and what goes with them."""
    # channels, size, filters, kernel, stride: ResNet-50's, the first of each stage first.
    shapes = ((64, 56, 64, 3, 1), (512, 14, 256, 1, 1), (128, 28, 128, 3, 1), (256, 14, 256, 3, 1),
              (512, 7, 512, 3, 1), (3, 224, 64, 7, 2), (64, 56, 64, 1, 1), (64, 56, 256, 1, 1),
              (256, 56, 64, 1, 1), (256, 56, 128, 1, 1), (128, 56, 128, 3, 2), (128, 28, 512, 1, 1),
              (256, 56, 512, 1, 2), (512, 28, 128, 1, 1), (512, 28, 256, 1, 1), (256, 28, 256, 3, 2),
              (256, 14, 1024, 1, 1), (512, 28, 1024, 1, 2), (1024, 14, 256, 1, 1), (1024, 14, 512, 1, 1),
              (512, 14, 512, 3, 2), (512, 7, 2048, 1, 1), (1024, 14, 2048, 1, 2), (2048, 7, 512, 1, 1))
    for dtype in ("bf16", "tf32", "fp16"):
        for number, (channels, size, filters, kernel, stride) in enumerate(shapes):
            for direction in ("forward", "backward"):
                define("convolution", "conv2d", 0 if number < 6 and dtype == "bf16" else 1, device.conv, dtype=dtype,
                       batch=64, channels=channels, size=size, filters=filters, kernel=kernel,
                       stride=stride, direction=direction)
    for number, (channels, size, filters, kernel, stride) in enumerate(shapes):
        for direction in ("forward", "backward"):
            define("convolution", "conv2d", 1, device.conv, dtype="bf16", batch=64, channels=channels, size=size,
                   filters=filters, kernel=kernel, stride=stride, direction=direction, layout="nchw")
    for what in ("batch_norm", "max_pool", "average_pool_2", "group_norm", "upsample"):
        for channels, size in ((64, 112), (256, 56), (512, 14), (1024, 14)):
            for direction in ("forward", "backward"):
                define("image", what, 1, functools.partial(device.image, what), dtype="bf16", batch=64,
                       channels=channels, size=size, layout="nchw", direction=direction)
    for what in ("batch_norm", "max_pool", "average_pool"):
        for channels, size in ((64, 112), (256, 56), (2048, 7)):
            define("image", what, 1, functools.partial(device.image, what), dtype="bf16", batch=64,
                   channels=channels, size=size)


def define_linear():
    """Products of a linear layer and its gradients, then of inference."""
    linear = ((4096, 4096), (768, 768), (14336, 4096), (3072, 768), (50304, 768), (2304, 768), (768, 3072),
              (4096, 14336), (6144, 4096), (128256, 4096))
    for tokens in (16384, 4096):
        for n, k in linear:
            define("gemm", "mm", 1, device.mm, dtype="bf16", m=tokens, n=n, k=k, layout="nt")
            define("gemm", "mm", 1, device.mm, dtype="bf16", m=tokens, n=k, k=n, layout="nn")
            define("gemm", "mm", 1, device.mm, dtype="bf16", m=n, n=k, k=tokens, layout="tn")
    for tokens in (1, 16, 128, 1024):
        for n, k in linear:
            define("gemm", "mm", 1, device.mm, dtype="bf16", m=tokens, n=n, k=k, layout="nt")


def define_more_products():
    """More sizes and types, and batches."""
    for dtype in ("bf16", "fp16", "tf32", "fp8", "fp32", "int8", "fp64"):
        for size in (128, 256, 512, 2048, 16384):
            define("gemm", "mm", 1 if dtype != "fp64" else 2, device.mm, dtype=dtype, m=size, n=size, k=size,
                   layout="nt" if dtype in ("fp8", "int8") else "nn")
    for m in (128, 512, 2048, 8192, 16384):
        for n in (128, 512, 2048, 8192, 16384):
            for k in (128, 512, 2048, 8192, 16384):
                define("gemm", "mm", 2, device.mm, dtype="bf16", m=m, n=n, k=k, layout="nn")
    for batch, m, n, k in ((384, 1024, 1024, 64), (384, 1024, 64, 1024), (64, 512, 512, 512)):
        define("gemm", "bmm", 1, device.bmm, dtype="bf16", batch=batch, m=m, n=n, k=k)


def define_cold():
    """What the least has, with cold caches."""
    for op in [op for op in OPS.values() if op.level == 0 and op.family in (
            "elementwise", "reduction", "rows", "layout", "optimizer")]:
        define(op.family, op.name, 2, op.make, l2="cold", **op.parameters)


def define_host():
    """Copies, and what calls cost the host."""
    sizes = [4 << (2 * step) for step in range(15)]  # 4 B to 1 GiB
    for what in ("copy_h2d_pinned", "copy_d2h_pinned", "copy_d2d", "memset"):
        for size in sizes:
            define("copy", what, 0 if size in (4, 1 << 16, 1 << 24, 1 << 28) else 1,
                   functools.partial(device.copy, what), bytes=size)
    for what in ("h2d_pageable", "d2h_pageable", "h2d_pinned", "d2h_pinned"):
        for size in sizes:
            define("host", what, 0 if size in (4, 1 << 16, 1 << 24) else 1,
                   functools.partial(host.host_copy, what), host=True, bytes=size)
    for what in ("empty_call", "launch", "launch_and_synchronize", "event_record", "event_query",
                 "stream_synchronize_idle", "event_synchronize_done"):
        define("host", what, 0, functools.partial(host.host_call, what), host=True)
    for nodes in (1, 10, 100):
        define("host", "graph_launch", 0, host.graph_launch, host=True, nodes=nodes)
    for size in (4096, 1 << 20, 1 << 24, 1 << 28):
        for what in ("malloc", "free", "host_alloc"):
            define("host", what, 0 if size == 1 << 20 else 1, functools.partial(host.allocation, what),
                   host=True, bytes=size)
    for what in ("init", "context"):
        define("host", what, 0, functools.partial(host.start_up, what), host=True)


def define_all():
    """Everything there is, each family's own order."""
    define_products()
    define_attention()
    define_elementwise()
    define_reductions()
    define_rows()
    define_indexing()
    define_optimizers()
    define_layouts()
    define_convolutions()
    define_host()
    define_linear()
    define_more_products()
    define_cold()
