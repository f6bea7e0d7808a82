"""Tests that run real programs under phantora-run.

They need what tools/setup.sh puts into the cache, outside Bazel's knowledge, so
that no result is ever cached. Those that judge how long something takes, in
simulated time or in real time, run one at a time. A Python file with a shebang
serves as the test; Bazel's own Python rules would need a Python toolchain.
"""

def phantora_test(
        name,
        src,
        args = [],
        data = [],
        size = "medium",
        tags = [],
        exclusive = True,
        **kwargs):
    """`src` gets the path of phantora-run, then `args`; `exclusive`: nothing else runs beside it."""
    native.sh_test(
        name = name,
        size = size,
        srcs = [src],
        args = ["$(location //tools:phantora-run)"] + args,
        data = ["//tools:phantora-run"] + data,
        tags = (["exclusive"] if exclusive else []) + [
            "external",
            "no-sandbox",
        ] + tags,
        **kwargs
    )

def conformance_test(gpu, driver, host_time = "real", checked = False, tags = []):
    """All of test/tracees on one personality, driver version and mode of host time; `checked`: with
    --check-gpu-memory."""
    suffix = ("" if host_time == "real" else "_" + host_time) + ("_checked" if checked else "")
    phantora_test(
        name = "conformance_%s_%s%s_test" % (gpu.split("-")[0], driver.split(".")[0], suffix),
        src = "conformance_test.py",
        args = [
            gpu,
            driver,
            host_time + ("+checked" if checked else ""),
            "$(locations //test/tracees:all_tracees)",
        ],
        data = [
            "program_runner.py",
            "//test/tracees:all_tracees",
        ],
        tags = tags,
        # With fixed time, illegal_access and kill_child take a minute each; the others share the processors.
        size = "large",
        exclusive = host_time != "real",
    )

def programs_test(gpu, driver, programs):
    """Programs of test/programs on one personality and driver version."""
    files = ["programs/%s.py" % program for program in programs]
    phantora_test(
        name = "programs_%s_%s_test" % (gpu.split("-")[0], driver.split(".")[0]),
        src = "programs_test.py",
        args = [
            gpu,
            driver,
        ] + ["$(location %s)" % file for file in files],
        data = ["program_runner.py"] + files,
        size = "large",
        exclusive = False,
    )
