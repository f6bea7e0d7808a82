"""Fuzz targets: a function LLVMFuzzerTestOneInput for every parser of bytes that are not to be trusted."""

load("@rules_cc//cc:defs.bzl", "cc_binary", "cc_library", "cc_test")

def fuzz_target(name, deps, runs, data = []):
    """Makes NAME_fuzz_test and NAME_fuzzer of targets/NAME.cc.

    Args:
      name: of the target.
      deps: what it includes.
      runs: inputs that the test makes by chance, half a minute's or so. The fuzzer, which takes clang and libFuzzer, is tools/fuzz.sh's.
      data: files that it opens.
    """
    cc_library(
        name = name + "_target",
        testonly = True,
        srcs = ["targets/" + name + ".cc"],
        deps = deps + [":choices"],
        alwayslink = True,
    )
    cc_test(
        name = name + "_fuzz_test",
        size = "medium",
        srcs = ["mutating_main.cc"],
        args = ["--runs", str(runs)] + ["$(locations :inputs_%s)" % name],
        data = data + [":inputs_" + name],
        deps = [":" + name + "_target"],
    )
    native.filegroup(
        name = "inputs_" + name,
        testonly = True,
        srcs = native.glob(["inputs/" + name + "/*"]),
    )
    cc_binary(
        name = name + "_fuzzer",
        testonly = True,
        data = data,
        linkopts = ["-fsanitize=fuzzer"],
        tags = ["manual"],
        deps = [":" + name + "_target"],
    )
