"""Below phantora-run: PyTorch's sample inputs, computed on `cpu` and on `cuda`, and compared."""

import contextlib
import io
import itertools
import json
import mmap
import os
import re
import signal
import struct
import sys
from unittest import mock

MOST_SAMPLES = 6
MOST_ELEMENTS = 50_000
# Of that many of an operation's samples, MOST_SAMPLES are taken, evenly.
SAMPLES_LOOKED_AT = 48
MOST_RESTARTS = 12
# Elements that are equal may be found at other places.
WITH_TIES = {"sort", "argsort", "msort", "topk", "kthvalue", "mode", "median", "nanmedian", "max",
             "min", "cummax", "cummin", "argmax", "argmin"}
# cuda multiplies and adds in one rounding before it truncates.
FUSED = {("linspace", "int64")}


backward = False  # compare gradients instead of results


def import_op_db():
    """OpInfo's operations by name. Asks no GPU, so that processes forked later may use one."""
    import torch
    import torch.utils._triton as triton
    torch.backends.cudnn.allow_tf32 = False  # OpInfo freezes the flags
    answers = [(torch.cuda, "is_available", True), (torch.cuda, "device_count", 1),
               (torch.cuda, "get_device_capability", (8, 0)), (triton, "has_triton", False)]
    with contextlib.ExitStack() as stack:
        for module, name, answer in answers:
            stack.enter_context(mock.patch.object(module, name, lambda *_, is_=answer: is_))
        stack.enter_context(contextlib.redirect_stdout(io.StringIO()))
        stack.enter_context(contextlib.redirect_stderr(io.StringIO()))
        from torch.testing._internal.common_methods_invocations import op_db
    torch.set_num_threads(1)
    return {full_name(op): op for op in op_db}


def full_name(op):
    return op.name + ("." + op.variant_test_name if op.variant_test_name else "")


def to_device(value, device):
    """A deep copy in which tensors are on `device`."""
    import torch
    if isinstance(value, torch.Tensor):
        return value.detach().clone().to(device).requires_grad_(value.requires_grad)
    if isinstance(value, torch.device):
        return torch.device(device)
    if isinstance(value, str) and value in ("cpu", "cuda"):
        return device
    if isinstance(value, dict):
        return {key: to_device(item, device) for key, item in value.items()}
    if isinstance(value, (list, tuple)) and not hasattr(value, "_fields"):
        return type(value)(to_device(item, device) for item in value)
    return value


def widened(value):
    """A copy in double precision."""
    import torch
    if isinstance(value, torch.Tensor):
        copy = value.detach().clone()
        copy = copy.double() if copy.is_floating_point() else copy
        return copy.requires_grad_(value.requires_grad)
    if isinstance(value, torch.dtype):
        return torch.float64 if value.is_floating_point else value
    if isinstance(value, dict):
        return {key: widened(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)) and not hasattr(value, "_fields"):
        return type(value)(widened(item) for item in value)
    return value


def flat(value):
    """The tensors and numbers of a result."""
    import torch
    if isinstance(value, (torch.Tensor, int, float, complex, bool, torch.Size)):
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, (list, tuple)):
        return [item for part in value for item in flat(part)]
    return []


def elements(value):
    return sum(item.numel() for item in flat(value) if hasattr(item, "numel"))


def samples_of(op, dtype):
    """Some of its samples by number: always the same."""
    import torch
    torch.manual_seed(1)
    all_samples = op.sample_inputs("cpu", dtype, requires_grad=backward)
    small = [sample for sample in itertools.islice(all_samples, SAMPLES_LOOKED_AT)
             if elements([sample.input, sample.args, sample.kwargs]) <= MOST_ELEMENTS]
    count = min(len(small), MOST_SAMPLES)
    return [small[index * len(small) // count] for index in range(count)]


def tolerance(op, dtype):
    """(rtol, atol) by which a result is right: PyTorch's, or what the operation's tests loosen."""
    from torch.testing._comparison import default_tolerances
    rtol, atol = default_tolerances(dtype)
    for info in op.decorators:
        if getattr(info, "device_type", None) not in (None, "cuda"):
            continue
        for override in getattr(info, "decorators", [info]):
            mine = getattr(override, "d", {}).get(dtype)
            if isinstance(mine, float):
                atol = max(atol, mine)
            elif mine is not None:
                rtol, atol = max(rtol, mine.rtol), max(atol, mine.atol)
    return rtol, atol


def call(op, sample, device, seed=2, change=lambda value: value):
    """Its result, or with `backward` gradients. `seed`: also where OpInfo has it set its own."""
    import torch
    arguments = to_device((sample.input, sample.args, sample.kwargs), device)
    first, rest, named = change(arguments)
    torch.manual_seed(seed)
    inputs = [item for item in flat([first, rest, named]) if getattr(item, "requires_grad", False)]
    with mock.patch.object(torch, "manual_seed", lambda *_: None):
        result = sample.output_process_fn_grad(op(first, *rest, **named))
    return gradients(result, inputs) if backward else result


def gradients(result, inputs):
    """Of a weighted sum of the results by the inputs."""
    import torch
    outputs = [item for item in flat(result) if hasattr(item, "grad_fn") and item.requires_grad]
    if not outputs:
        raise NoGradient()
    generator = torch.Generator().manual_seed(4)
    weights = [(torch.rand(item.shape, generator=generator) + 0.5).to(item) for item in outputs]
    found = torch.autograd.grad(outputs, inputs, weights, allow_unused=True)
    return [item for item in found if item is not None]


class NoGradient(Exception):
    """Nothing of an operation's results depends on its inputs differentiably."""


def differ(actual, expected, rtol=None, atol=None):
    """How two results differ, or None."""
    import torch
    ours, theirs = flat(actual), flat(expected)
    if len(ours) != len(theirs):
        return f"{len(ours)} results, not {len(theirs)}"
    for index, (mine, its) in enumerate(zip(ours, theirs)):
        if isinstance(mine, torch.Tensor):
            mine = mine.cpu()
        exact = isinstance(its, torch.Tensor) and not its.dtype.is_floating_point and \
            not its.dtype.is_complex
        if not exact and its is not None and getattr(its, "dtype", None) == torch.complex32 and \
                mine.dtype == its.dtype:
            mine, its = mine.to(torch.complex64), its.to(torch.complex64)
        given = {} if exact or rtol is None else loosest((rtol, atol), its)
        try:
            torch.testing.assert_close(mine, its, equal_nan=True, check_device=False, **given)
        except AssertionError as error:
            return f"result {index}: {shorter(error)}; {example(mine, its)}"
        except Exception as error:  # e.g. of types that it does not know
            if not isinstance(its, torch.Tensor) or not mine.equal(its):
                return f"result {index}: {shorter(error)}"
    return None


def loosest(given, tensor):
    """Tolerances that are enough for a result of another type than the inputs' as well."""
    from torch.testing._comparison import default_tolerances
    own = default_tolerances(tensor) if hasattr(tensor, "dtype") else (0, 0)
    return {"rtol": max(given[0], own[0]), "atol": max(given[1], own[1])}


def shorter(error, length=300):
    return " ".join(str(error).split())[:length]


def example(mine, its):
    """Where and how two tensors differ most."""
    import torch
    if not isinstance(its, torch.Tensor) or mine.shape != its.shape or mine.is_sparse or \
            its.is_complex():
        return shorter(f"got {mine}, expected {its}", 200)
    with contextlib.suppress(Exception):
        mine, its = mine.flatten(), its.flatten()
        apart = (mine.double() - its.double()).abs()
        apart[apart.isnan() & ~(mine.isnan() & its.isnan())] = float("inf")
        at = apart.nan_to_num(nan=0.0).argmax().item()
        near = slice(max(0, at - 2), at + 4)
        return (f"at {at} of {its.numel()} {str(its.dtype)[6:]}: got {mine[at].item()}, expected "
                f"{its[at].item()}; around: {mine[near].tolist()} / {its[near].tolist()}")
    return ""


def as_near(cuda, cpu, wide):
    """Is `cuda` about as near to the result in double precision as `cpu` is?"""
    import torch
    for mine, its, best in zip(flat(cuda), flat(cpu), flat(wide)):
        if not isinstance(its, torch.Tensor) or not (its.is_floating_point() or its.is_complex()):
            if differ(mine, its) is not None:
                return False
            continue
        epsilon = torch.finfo(its.dtype).eps
        mine, its, best = in_double(mine), in_double(its), in_double(best)
        if mine.shape != best.shape or not torch.isfinite(mine).equal(torch.isfinite(its)):
            return False
        finite = torch.isfinite(best) & torch.isfinite(its)
        if not finite.any():
            continue
        mine, its, best = mine[finite], its[finite], best[finite]
        allowed = 3 * (its - best).abs().max() + 4 * epsilon * best.abs() + \
            epsilon * best.abs().mean()
        if ((mine - best).abs() > allowed).any():
            return False
    return True


def in_double(tensor):
    import torch
    tensor = tensor.cpu()
    if tensor.is_complex():
        return torch.view_as_real(tensor.to(torch.complex128).resolve_conj())
    return tensor.double()


def only_ties(op, sample, cuda, cpu):
    """Do the results differ in nothing but which of several equals was taken?"""
    import torch
    if op.name not in WITH_TIES or not isinstance(sample.input, torch.Tensor):
        return False
    source = sample.input
    ways = [None, *range(source.dim())]
    if op.name == "mode":  # of values that are equally frequent either will do
        values, its = flat(cuda)[0].cpu(), flat(cpu)[0]
        return any(as_frequent(source, values, its, dim) for dim in ways[1:])
    for mine, its in zip(flat(cuda), flat(cpu)):
        mine = mine.cpu()
        if its.dtype != torch.int64 or mine.shape != its.shape:
            if differ(mine, its) is not None:
                return False
        elif not mine.equal(its) and not any(gathers_the_same(source, mine, its, dim)
                                             for dim in ways):
            return False
    return True


def as_frequent(source, mine, its, dim):
    """Are values as frequent along a dimension as others?"""
    if mine.numel() * source.shape[dim] != source.numel():
        return False
    if mine.dim() < source.dim():
        mine, its = mine.unsqueeze(dim), its.unsqueeze(dim)
    try:
        return (source == mine).sum(dim).equal((source == its).sum(dim))
    except RuntimeError:
        return False


def gathers_the_same(source, mine, its, dim):
    import torch
    try:
        if dim is None:
            a, b = source.flatten()[mine], source.flatten()[its]
        else:
            if its.dim() < source.dim():
                mine, its = mine.unsqueeze(dim), its.unsqueeze(dim)
            a, b = source.gather(dim, mine), source.gather(dim, its)
    except (IndexError, RuntimeError):
        return False
    return differ(a, b) is None


def reference(op, sample, dtype):
    """What cpu gives, or (None, why there is nothing to compare with)."""
    import torch
    supported = op.supported_backward_dtypes if backward else op.supported_dtypes
    narrow = dtype not in supported("cpu")
    if narrow and not dtype.is_floating_point:
        return None, "not on cpu"
    change = widened if narrow else lambda value: value
    try:
        result = call(op, sample, "cpu", change=change)
        if differ(call(op, sample, "cpu", seed=3, change=change), result) is not None:
            return None, "random"
    except NoGradient:
        return None, "no gradient"
    except Exception as error:
        return None, "cpu raises " + type(error).__name__
    return [narrowed(item, dtype) for item in flat(result)] if narrow else result, None


def narrowed(item, dtype):
    """What was computed in double precision, in the type that it stands for."""
    import torch
    kinds = {torch.float64: dtype}
    if dtype == torch.float16:
        kinds[torch.complex128] = torch.complex32
    return item.to(kinds.get(item.dtype, item.dtype)) if isinstance(item, torch.Tensor) else item


def judge(op, dtype, sample):
    """(status, details) of one sample."""
    import torch
    expected, why = reference(op, sample, dtype)
    if why:
        return "skipped", why
    try:
        result = call(op, sample, "cuda")
        torch.cuda.synchronize()
    except NotImplementedError:
        return "skipped", "not on cuda"
    except Exception as error:
        if re.search("not supported on CUDA|to be on cpu", str(error)):
            return "skipped", "not on cuda"
        return "error", f"{type(error).__name__}: {shorter(error)}"
    difference = differ(result, expected, *tolerance(op, dtype))
    if difference is None:
        return "right", ""
    if differ(result, expected, 1e-3, 1e-3) is None and dtype == torch.float32:
        return "close", difference
    if only_ties(op, sample, result, expected):
        return "ties", difference
    with contextlib.suppress(Exception):
        if as_near(result, expected, call(op, sample, "cpu", change=widened)):
            return "close", difference
    return ("excused" if is_excused(op, dtype) else "wrong"), difference


def is_excused(op, dtype):
    """Does PyTorch's own test of cuda against cpu leave it out, or is it known to differ?"""
    test = "TestCommon", "test_compare_cpu"
    return (op.name, str(dtype)[6:]) in FUSED or any(
        getattr(info, "test_name", None) == test[1] and
        info.is_active(*test, "cuda", dtype, {}) for info in op.decorators)


def say(**what):
    print("@" + json.dumps(what), flush=True)


def run_group(ops, group, begin, progress):
    """Runs a group's samples from the `begin`th on; `progress` is told which."""
    import torch
    global backward
    op = ops[group["op"]]
    backward = group["backward"]
    if backward and not op.supports_autograd:
        return
    number = -1
    for name in group["dtypes"]:
        dtype = getattr(torch, name)
        supported = op.supported_backward_dtypes if backward else op.supported_dtypes
        if dtype not in supported("cuda"):
            continue
        samples = None
        for index in group.get("samples") or range(MOST_SAMPLES):
            number += 1
            if number < begin:
                continue
            progress[:8] = struct.pack("q", number)
            if samples is None:
                try:
                    samples = samples_of(op, dtype)
                except Exception as error:
                    say(case=[group["op"], name, 0], status="skipped",
                        details="no samples: " + type(error).__name__ + shorter(error, 80))
                    samples = []
            if index >= len(samples):
                continue
            what = shorter(samples[index].summary().replace('device="cpu", ', ""), 400)
            case = [group["op"], name, index]
            say(begins=case, sample=what)
            try:
                status, details = judge(op, dtype, samples[index])
            except Exception as error:
                status, details = "error", f"comparing: {type(error).__name__} {shorter(error)}"
            say(case=case, status=status, details=details, sample=what)
            if "CUDA error" in details or "CUDA driver error" in details or \
                    "device-side assert" in details:
                os._exit(3)


def inside(path):
    """Below phantora-run: forks a process per group, and another one where one died."""
    with open(path) as file:
        groups = json.load(file)
    ops = import_op_db()
    progress = mmap.mmap(-1, 8)
    for number, group in enumerate(groups):
        begin = 0
        for _ in range(MOST_RESTARTS):
            progress[:8] = struct.pack("q", -1)
            sys.stdout.flush()
            child = os.fork()
            if child == 0:
                with contextlib.suppress(BaseException):
                    say(group=number, op=group["op"], pid=os.getpid())
                    run_group(ops, group, begin, progress)
                    os._exit(0)
                import traceback
                traceback.print_exc()
                os._exit(4)
            _, status = os.waitpid(child, 0)
            say(ended=number, status=status)
            if status == 0 or os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGTERM:
                break
            begin = struct.unpack("q", progress[:8])[0] + 1
            if begin == 0:
                break
