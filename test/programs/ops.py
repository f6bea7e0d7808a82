#!/usr/bin/env python3
"""Runs single operations whose traffic with memory can be said: what they have to read and
write, each once. Prints a JSON object of their names and bytes.

Between operations it sleeps for ten simulated seconds, by which a timeline tells them apart.

usage: ops.py
"""

import json
import time

import torch
import torch.nn.functional as F

BF16 = torch.bfloat16
expected = {}


def zeros(*shape, dtype=torch.float32, grad=False):
    return torch.zeros(*shape, device="cuda", dtype=dtype, requires_grad=grad)


def indices(count, below):
    return (torch.arange(count) * 7919 % below).cuda()


def size(*tensors):
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


def flat(value):
    if isinstance(value, torch.Tensor):
        return [value]
    return [] if value is None else [item for part in value for item in flat(part)]


def op(name, function, *inputs, also=0):
    """`also`: bytes beyond its inputs and outputs, e.g. of a second pass."""
    outputs = flat(function())  # the first call may set things up
    expected[name] = size(*flat(inputs), *outputs) + also
    del outputs
    torch.cuda.synchronize()
    time.sleep(5)
    result = function()
    torch.cuda.synchronize()
    del result
    time.sleep(5)


def backward(name, function, *inputs, saved=(), also=0):
    """Of `function`; reads the gradient of its output and what is `saved`, writes those of
    the inputs."""
    out = function()
    gradient = torch.zeros_like(out)
    wanted = [tensor for tensor in flat(inputs) if tensor.requires_grad]
    op(name, lambda: torch.autograd.grad(out, wanted, gradient, retain_graph=True), gradient,
       saved, also=also)


a, b = zeros(4000, 1536), zeros(4000, 1536)
h, g = zeros(4000, 1536, dtype=BF16), zeros(4000, 1536, dtype=BF16)
row, column = zeros(1536), zeros(4000, 1)
mask = torch.zeros(4000, 1536, device="cuda", dtype=torch.bool)
long = torch.zeros(4000, 1536, device="cuda", dtype=torch.long)

# Elementwise: contiguous, mixed types, broadcast, strided.
op("add", lambda: a + b, a, b)
op("add bf16", lambda: h + g, h, g)
op("add of two types", lambda: a + g, a, g)
op("add a row", lambda: a + row, a, row)
op("add a column", lambda: a + column, a, column)
op("add int64", lambda: long + long, long, long)
op("multiply by a scalar", lambda: a * 2.5, a)
op("multiply in place", lambda: a.mul_(2.5), a)
op("divide bf16", lambda: h / g, h, g)
op("relu bf16", lambda: F.relu(h), h)
op("gelu", lambda: F.gelu(a), a)
op("gelu bf16", lambda: F.gelu(h), h)
op("silu", lambda: F.silu(a), a)
op("exp", lambda: a.exp(), a)
op("pow", lambda: a ** 3, a)
op("rsqrt bf16", lambda: h.rsqrt(), h)
op("where", lambda: torch.where(mask, a, b), mask, a, b)
op("masked fill", lambda: a.masked_fill(mask, 1.0), a, mask, also=2 * a.nbytes)
op("compare", lambda: a > b, a, b)
op("clamp", lambda: a.clamp(0, 1), a)
op("addcmul", lambda: torch.addcmul(a, a, b), a, a, b)
op("lerp", lambda: torch.lerp(a, b, 0.5), a, b)
op("fp32 to bf16", lambda: a.to(BF16), a)
op("bf16 to fp32", lambda: h.float(), h)
op("fp32 to fp8", lambda: a.to(torch.float8_e4m3fn), a)
op("int64 to fp32", lambda: long.float(), long)
op("copy", lambda: a.clone(), a)
op("copy a transposed", lambda: a.t().contiguous(), a)
op("copy every second", lambda: a[:, ::2].contiguous(), a)  # whole sectors are read
op("copy heads", lambda: h.view(4, 1000, 12, 128).transpose(1, 2).contiguous(), h)
op("fill", lambda: torch.full((4000, 1536), 3.0, device="cuda"))
op("arange", lambda: torch.arange(6_000_000, device="cuda"))
op("lower triangle", lambda: a.tril(), a)
op("repeat", lambda: row.expand(4000, 1536).contiguous(), row)
op("repeat interleave", lambda: a.repeat(2, 1), a)
op("random", lambda: torch.rand(4000, 1536, device="cuda"))
op("normal bf16", lambda: torch.randn(4000, 1536, device="cuda", dtype=BF16))
op("bernoulli in place", lambda: a.bernoulli_(0.5))
op("dropout", lambda: torch.native_dropout(a, 0.1, True), a)
op("dropout bf16", lambda: torch.native_dropout(h, 0.1, True), h)

# Reductions.
op("sum", lambda: a.sum(), a)
op("sum of columns", lambda: a.sum(0), a)
op("sum of rows", lambda: a.sum(1), a)
op("sum of columns bf16", lambda: h.sum(0), h)
op("sum bf16 in fp32", lambda: h.sum(dtype=torch.float32), h)
op("mean of rows bf16", lambda: h.mean(-1), h)
op("largest of rows", lambda: a.amax(1), a)
op("argmax of rows", lambda: a.argmax(1), a)
op("max of rows with index", lambda: a.max(1), a)
op("norm", lambda: a.norm(), a)
op("variance", lambda: a.var(1), a)
op("any", lambda: mask.any(1), mask)
op("all finite", lambda: torch.isfinite(a).all(), a, also=6 * mask.nbytes + 3 * a.nbytes)

# Rows: softmax and norms.
wide, wide_bf16 = zeros(512, 32768), zeros(512, 32768, dtype=BF16)
weight, weight_bf16 = zeros(1536, grad=True), zeros(1536, dtype=BF16, grad=True)
op("softmax", lambda: torch.softmax(a, -1), a)
op("softmax bf16", lambda: torch.softmax(h, -1), h)
op("softmax of 512", lambda: torch.softmax(a.view(-1, 512), -1), a)
op("log softmax", lambda: torch.log_softmax(a, -1), a)
op("softmax of 32768", lambda: torch.softmax(wide, -1), wide)
op("softmax of 32768 bf16", lambda: torch.softmax(wide_bf16, -1), wide_bf16)
op("layer norm", lambda: torch.native_layer_norm(a, (1536,), weight, weight, 1e-5), a, weight, weight)
op("layer norm bf16", lambda: torch.native_layer_norm(h, (1536,), weight_bf16, weight_bf16, 1e-5),
   h, weight_bf16, weight_bf16)
op("group norm", lambda: F.group_norm(a.view(4, 1000, 1536), 10), a, also=a.nbytes)
op("RMS norm by hand", lambda: h * torch.rsqrt(h.float().pow(2).mean(-1, keepdim=True) + 1e-6), h,
   also=4 * a.nbytes + h.nbytes)
x, xh = zeros(4000, 1536, grad=True), zeros(4000, 1536, dtype=BF16, grad=True)
backward("gelu backward", lambda: F.gelu(x), x, saved=x)
backward("silu backward bf16", lambda: F.silu(xh), xh, saved=xh)
backward("softmax backward", lambda: torch.softmax(x, -1), x, saved=x, also=3 * x.nbytes)
backward("softmax backward bf16", lambda: torch.softmax(xh, -1), xh, saved=xh, also=3 * xh.nbytes)
backward("log softmax backward", lambda: torch.log_softmax(x, -1), x, saved=x)
backward("layer norm backward", lambda: F.layer_norm(x, (1536,), weight, weight), x, weight,
         saved=x, also=2 * x.nbytes)

# Losses, embeddings, indices.
target = indices(4000, 1536)
op("negative log likelihood", lambda: F.nll_loss(a, target), target, also=4000 * 32)
op("cross entropy bf16", lambda: F.cross_entropy(h, target), h, target, also=h.nbytes + 4000 * 32)
tokens, table = indices(8192, 50000), zeros(50000, 768, grad=True)
op("embedding", lambda: F.embedding(tokens, table), tokens, also=8192 * 768 * 4)
op("index rows", lambda: a[target[:2000]], target[:2000], also=2000 * 1536 * 4)
op("index select", lambda: a.index_select(0, target), target, also=4000 * 1536 * 4)
op("gather", lambda: a.gather(1, long), long, also=a.nbytes)
op("scatter", lambda: a.scatter(1, long, b), a, long, b, also=a.nbytes)
op("index add", lambda: a.index_add_(0, target, b), target, b, also=a.nbytes)
op("index put", lambda: h.index_put_((target,), g), target, g)
op("masked select of nothing", lambda: torch.nonzero(mask), mask, also=mask.nbytes)

# Sort, scan, top-k.
op("cumsum of rows", lambda: a.cumsum(1), a)
op("cumsum", lambda: a.view(-1).cumsum(0), a)
op("cumsum of columns", lambda: a.cumsum(0), a)
op("top 8", lambda: a.topk(8), a, also=4 * a.nbytes)

# Layout.
op("concatenate", lambda: torch.cat([a, b]), a, b)
op("concatenate columns", lambda: torch.cat([h, g], 1), h, g)
op("concatenate eight", lambda: torch.cat([a] * 8), [a] * 8)
op("stack", lambda: torch.stack([h, g]), h, g)
op("pad", lambda: F.pad(a, (8, 8)), a, also=a.nbytes)
op("roll", lambda: a.roll(5, 0), a)
op("flip", lambda: a.flip(0), a)

# Images.
image, image_last = zeros(32, 64, 112, 112), zeros(32, 64, 112, 112, dtype=BF16)
image_last = image_last.to(memory_format=torch.channels_last)
op("max pool", lambda: F.max_pool2d(image, 2), image, also=32 * 64 * 56 * 56 * 8)
op("average pool", lambda: F.adaptive_avg_pool2d(image, 1), image)
op("upsample", lambda: F.interpolate(image, scale_factor=2.0), image)
scale = zeros(64)
op("batch norm in training", lambda: F.batch_norm(image, scale.clone(), scale.clone(), scale, scale, True),
   image, also=image.nbytes)
op("batch norm in evaluation", lambda: F.batch_norm(image, scale, scale, scale, scale), image)
op("to channels last", lambda: image.to(memory_format=torch.channels_last), image)

# Optimizers: parameters, gradients and states as they are read and written.
parameters = [zeros(1024, 1024, grad=True) for _ in range(16)]
for parameter in parameters:
    parameter.grad = torch.zeros_like(parameter)
each = size(*parameters)


def stepper(kind, **options):
    optimizer = kind(parameters, lr=1e-3, **options)
    optimizer.step()
    return lambda: optimizer.step() and None


op("AdamW fused", stepper(torch.optim.AdamW, fused=True), also=7 * each)
op("SGD fused", stepper(torch.optim.SGD, fused=True), also=3 * each)
op("SGD with momentum fused", stepper(torch.optim.SGD, fused=True, momentum=0.9), also=5 * each)
op("foreach multiply", lambda: torch._foreach_mul(parameters, 2.0) and None, also=2 * each)
op("foreach add", lambda: torch._foreach_add(parameters, parameters) and None, also=3 * each)
op("foreach norm", lambda: torch._foreach_norm(parameters) and None, also=each)
op("foreach zero", lambda: torch._foreach_zero_([p.grad for p in parameters]) and None, also=each)
op("foreach copy", lambda: torch._foreach_copy_([p.grad for p in parameters],
                                                [p.grad for p in parameters]) and None, also=2 * each)
print(json.dumps(expected))
