"""Operations on the GPU: each function gets parameters and returns one that submits the work once."""

from bench.ops import torch


def dtype_of(name):
    t = torch()
    return {"bf16": t.bfloat16, "fp16": t.float16, "fp32": t.float32, "tf32": t.float32,
            "fp64": t.float64, "int8": t.int8, "int64": t.int64, "fp8": getattr(t, "float8_e4m3fn", None)}[name]


def random(*shape, dtype="fp32", grad=False):
    """Random data: what power a product takes depends on its bits."""
    t = torch()
    if dtype == "int8":
        return t.randint(-8, 8, shape, device="cuda", dtype=t.int8)
    wide = t.randn(*shape, device="cuda", dtype=t.bfloat16 if dtype == "fp8" else dtype_of(dtype))
    return wide.to(dtype_of(dtype)).requires_grad_(grad)


def indices(count, below):
    return torch().randint(0, below, (count,), device="cuda")


def mm(dtype, m, n, k, layout):
    t = torch()
    t.backends.cuda.matmul.allow_tf32 = dtype == "tf32"
    a = random(k, m, dtype=dtype).t() if layout[0] == "t" else random(m, k, dtype=dtype)
    b = random(n, k, dtype=dtype).t() if layout[1] == "t" else random(k, n, dtype=dtype)
    if dtype == "fp8":
        one = t.ones((), device="cuda")
        return lambda: t._scaled_mm(a, b, one, one, out_dtype=t.bfloat16)
    if dtype == "int8":
        return lambda: t._int_mm(a, b)
    return lambda: t.mm(a, b)


def bmm(dtype, batch, m, n, k):
    a, b = random(batch, m, k, dtype=dtype), random(batch, k, n, dtype=dtype)
    return lambda: torch().bmm(a, b)


def sdpa(dtype, batch, heads, sequence, width, causal, direction, backend="FLASH_ATTENTION"):
    t = torch()
    from torch.nn.attention import SDPBackend, sdpa_kernel  # pylint: disable=import-outside-toplevel
    q, k, v = (random(batch, heads, sequence, width, dtype=dtype, grad=direction == "backward")
               for _ in range(3))

    def forward():
        with sdpa_kernel(getattr(SDPBackend, backend)):
            return t.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal)
    if direction == "forward":
        return forward
    out = forward()
    gradient = t.randn_like(out)  # with its strides, so that nothing has to be copied
    return lambda: t.autograd.grad(out, (q, k, v), gradient, retain_graph=True)


def with_backward(direction, inputs, forward):
    if direction == "forward":
        return forward
    t = torch()
    out = forward()
    gradient = t.randn_like(out)
    return lambda: t.autograd.grad(out, inputs, gradient, retain_graph=True)


def elementwise(what, dtype, numel):
    t = torch()
    a, b = random(numel, dtype=dtype), random(numel, dtype=dtype)
    out = t.empty_like(a)
    other = t.empty(numel, device="cuda", dtype=t.float32 if dtype == "bf16" else t.bfloat16)
    mask = a > 0
    return {"add": lambda: t.add(a, b, out=out), "scale": lambda: t.mul(a, 2.0, out=out),
            "gelu": lambda: t.nn.functional.gelu(a), "silu": lambda: t.nn.functional.silu(a),
            "exp": lambda: t.exp(a, out=out), "convert": lambda: other.copy_(a),
            "where": lambda: t.where(mask, a, b), "fill": lambda: out.fill_(1.0),
            "dropout": lambda: t.native_dropout(a, 0.1, True), "uniform": lambda: out.uniform_(),
            "normal": lambda: out.normal_(), "add_mixed": lambda: t.add(a, other),
            "gelu_backward": lambda: t.ops.aten.gelu_backward(a, b),
            "silu_backward": lambda: t.ops.aten.silu_backward(a, b)}[what]


def reduction(what, dtype, rows, columns):
    t = torch()
    x = random(rows, columns, dtype=dtype)
    return {"sum": x.sum, "sum_rows": lambda: x.sum(1), "sum_columns": lambda: x.sum(0),
            "amax_rows": lambda: x.amax(1), "argmax_rows": lambda: x.argmax(1),
            "mean_rows": lambda: x.mean(1), "norm": lambda: t.linalg.vector_norm(x)}[what]


def rows(what, dtype, rows, columns, direction="forward"):  # pylint: disable=redefined-outer-name
    t = torch()
    f = t.nn.functional
    back = direction == "backward"
    x = random(rows, columns, dtype=dtype, grad=back)
    weight = random(columns, dtype=dtype, grad=back)
    if what == "cross_entropy":
        target = indices(rows, columns)
        return with_backward(direction, (x,), lambda: f.cross_entropy(x, target))
    return with_backward(direction, (x, weight) if "norm" in what else (x,), {
        "layer_norm": lambda: f.layer_norm(x, (columns,), weight, weight),
        "rms_norm": lambda: f.rms_norm(x, (columns,), weight),
        "softmax": lambda: t.softmax(x, -1), "log_softmax": lambda: t.log_softmax(x, -1)}[what])


def embedding(dtype, tokens, vocabulary, width, direction):
    table, at = random(vocabulary, width, dtype=dtype, grad=True), indices(tokens, vocabulary)
    return with_backward(direction, (table,), lambda: torch().nn.functional.embedding(at, table))


def optimizer(what, dtype, tensors, numel):
    t = torch()
    parameters = [random(numel, dtype=dtype, grad=True) for _ in range(tensors)]
    for parameter in parameters:
        parameter.grad = random(numel, dtype=dtype)
    kind, _, how = what.partition("_")
    if kind == "clip":
        return lambda: t.nn.utils.clip_grad_norm_(parameters, 1.0)
    made = {"adamw": t.optim.AdamW, "sgd": t.optim.SGD}[kind](parameters, lr=1e-3, **{how: True})
    return made.step


def layout(what, dtype, rows, columns):  # pylint: disable=redefined-outer-name
    t = torch()
    a, b = random(rows, columns, dtype=dtype), random(rows, columns, dtype=dtype)
    heads = a.view(rows, columns // 64, 64)
    by_heads = b.view(columns // 64, rows, 64)
    return {"cat": lambda: t.cat([a, b]), "cat_columns": lambda: t.cat([a, b], 1),
            "transpose": lambda: a.t().contiguous(), "heads": lambda: heads.transpose(0, 1).contiguous(),
            "stack": lambda: t.stack([a, b]), "cat_3": lambda: t.cat([heads] * 3, 2),
            "heads_back": lambda: by_heads.transpose(0, 1).contiguous(),
            "cat_strided": lambda: t.cat([heads.transpose(0, 1)] * 3, 2)}[what]


def index(what, dtype, rows, columns):  # pylint: disable=redefined-outer-name
    x, at = random(rows, columns, dtype=dtype), indices(rows, rows)
    t = torch()
    return {"index_select": lambda: x.index_select(0, at), "topk": lambda: x.topk(8),
            "cumsum": lambda: t.cumsum(x, 1), "sort": lambda: x.sort(1)}[what]


def conv(dtype, batch, channels, size, filters, kernel, stride, direction, layout="nhwc"):  # pylint: disable=redefined-outer-name
    t = torch()
    t.backends.cudnn.allow_tf32 = dtype == "tf32"
    x = random(batch, channels, size, size, dtype=dtype)
    w = random(filters, channels, kernel, kernel, dtype=dtype)
    if layout == "nhwc":
        x, w = (v.to(memory_format=t.channels_last) for v in (x, w))
    x, w = (v.requires_grad_(direction == "backward") for v in (x, w))
    return with_backward(direction, (x, w), lambda: t.nn.functional.conv2d(x, w, None, stride, kernel // 2))


def image(what, dtype, batch, channels, size, layout="nhwc", direction="forward"):  # pylint: disable=redefined-outer-name
    t = torch()
    f = t.nn.functional
    x = random(batch, channels, size, size, dtype=dtype)
    if layout == "nhwc":
        x = x.to(memory_format=t.channels_last)
    x.requires_grad_(direction == "backward")
    norm = t.nn.BatchNorm2d(channels).cuda()
    return with_backward(direction, (x,), {
        "batch_norm": lambda: norm(x), "max_pool": lambda: f.max_pool2d(x, 3, 2, 1),
        "average_pool": lambda: f.adaptive_avg_pool2d(x, 1), "average_pool_2": lambda: f.avg_pool2d(x, 2),
        "group_norm": lambda: f.group_norm(x, 32), "upsample": lambda: f.interpolate(x, scale_factor=2)}[what])


def copy(what, bytes):  # pylint: disable=redefined-builtin
    """What copy engines do, timed by events."""
    t = torch()
    there = t.empty(bytes, dtype=t.uint8, device="cuda")
    here = t.zeros(bytes, dtype=t.uint8, pin_memory=what != "copy_d2d" and what != "memset")
    another = t.empty_like(there) if what == "copy_d2d" else None
    return {"copy_h2d_pinned": lambda: there.copy_(here, non_blocking=True),
            "copy_d2h_pinned": lambda: here.copy_(there, non_blocking=True),
            "copy_d2d": lambda: another.copy_(there), "memset": there.zero_}[what]
