"""The public names of rules_cc, forwarded to Bazel's native rules (Bazel 4 to 7)."""

load("@phantora//tools/bazel:precompiled.bzl", "call_with_precompiled")

cc_import = native.cc_import
cc_toolchain = native.cc_toolchain
cc_toolchain_alias = native.cc_toolchain_alias
cc_toolchain_suite = native.cc_toolchain_suite
cc_libc_top_alias = native.cc_libc_top_alias
cc_proto_library = native.cc_proto_library
objc_library = native.objc_library

def cc_flags_supplier(name, **_kwargs):
    native.filegroup(name = name)

def compiler_flag(name, **_kwargs):
    native.filegroup(name = name)

def cc_binary(**arguments):
    call_with_precompiled(native.cc_binary, **arguments)

def cc_library(**arguments):
    call_with_precompiled(native.cc_library, **arguments)

def cc_test(**arguments):
    call_with_precompiled(native.cc_test, **arguments)
