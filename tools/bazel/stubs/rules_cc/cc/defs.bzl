"""The public names of rules_cc, forwarded to Bazel's native rules (Bazel 4 to 7)."""

cc_binary = native.cc_binary
cc_import = native.cc_import
cc_library = native.cc_library
cc_test = native.cc_test
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
