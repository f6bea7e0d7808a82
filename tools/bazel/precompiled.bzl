"""A header that nearly every file needs, compiled once.

Half of a build was spent on reading the same headers of abseil and the standard library again for each of
some 400 small files. The rules of @rules_cc include such a precompiled header into every C++ file that has no flags
of its own. Where flags differ after all, gcc reads the header itself: slower, never wrong.
--define=precompiled_header=off leaves it away, which shows what a file forgets to include.
"""

load("@bazel_tools//tools/build_defs/cc:action_names.bzl", "CPP_COMPILE_ACTION_NAME")
load("@bazel_tools//tools/cpp:toolchain_utils.bzl", "find_cpp_toolchain")

def _impl(ctx):
    toolchain = find_cpp_toolchain(ctx)
    features = cc_common.configure_features(
        ctx = ctx,
        cc_toolchain = toolchain,
        requested_features = ctx.features,
        unsupported_features = ctx.disabled_features,
    )
    header = ctx.actions.declare_file(ctx.label.name + ".h")
    ctx.actions.expand_template(template = ctx.file.header, output = header, substitutions = {})
    compiled = ctx.actions.declare_file(ctx.label.name + ".h.gch")
    flags = ctx.fragments.cpp.copts + ctx.fragments.cpp.cxxopts
    variables = cc_common.create_compile_variables(
        feature_configuration = features,
        cc_toolchain = toolchain,
        source_file = header.path,
        output_file = compiled.path,
        user_compile_flags = flags + ["-x", "c++-header"],
        use_pic = True,
    )
    ctx.actions.run(
        executable = cc_common.get_tool_for_action(
            feature_configuration = features,
            action_name = CPP_COMPILE_ACTION_NAME,
        ),
        arguments = cc_common.get_memory_inefficient_command_line(
            feature_configuration = features,
            action_name = CPP_COMPILE_ACTION_NAME,
            variables = variables,
        ),
        env = cc_common.get_environment_variables(
            feature_configuration = features,
            action_name = CPP_COMPILE_ACTION_NAME,
            variables = variables,
        ),
        inputs = depset([header], transitive = [toolchain.all_files]),
        outputs = [compiled],
        mnemonic = "CppPrecompile",
        progress_message = "Precompiling " + ctx.file.header.short_path,
    )
    return [
        DefaultInfo(files = depset([header, compiled])),
        CcInfo(compilation_context = cc_common.create_compilation_context(headers = depset([header, compiled]))),
    ]

precompiled_header = rule(
    implementation = _impl,
    attrs = {
        "header": attr.label(allow_single_file = True, mandatory = True),
        "_cc_toolchain": attr.label(default = "@bazel_tools//tools/cpp:current_cc_toolchain"),
    },
    fragments = ["cpp"],
    provides = [CcInfo],
    toolchains = ["@bazel_tools//tools/cpp:toolchain_type"],
)

def call_with_precompiled(rule, srcs = [], copts = [], deps = [], **others):
    """Makes a target of the rule, which includes the header where it can."""
    not_cpp = [src for src in srcs if src.endswith(".c") or src.endswith(".S")] if type(srcs) == "list" else srcs
    if srcs and not not_cpp and not copts and native.repository_name() == "@":
        copts = select({
            "@phantora//tools/bazel:not_precompiled": [],
            "//conditions:default": ["-include", "$(BINDIR)/tools/bazel/common.h"],
        })
        deps = deps + select({
            "@phantora//tools/bazel:not_precompiled": [],
            "//conditions:default": ["@phantora//tools/bazel:common"],
        })
    rule(srcs = srcs, copts = copts, deps = deps, **others)
