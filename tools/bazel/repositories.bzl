"""All external libraries; every one is a Debian 12 package."""

load("//tools/bazel:pkg_config.bzl", "pkg_config_repository")

def phantora_repositories():
    pkg_config_repository(
        name = "com_google_absl",
        hint = "libabsl-dev",
        libs = {
            "absl/cleanup:cleanup": ["absl_cleanup"],
            "absl/functional:function_ref": ["absl_function_ref"],
            "absl/container:flat_hash_map": ["absl_flat_hash_map", "absl_flat_hash_set"],
            "absl/status:status": ["absl_status"],
            "absl/status:statusor": ["absl_statusor"],
            "absl/strings:strings": ["absl_strings", "absl_str_format"],
            "absl/types:span": ["absl_span"],
        },
    )
    pkg_config_repository(
        name = "com_google_googletest",
        hint = "libgtest-dev libgmock-dev",
        libs = {
            ":gtest": ["gtest", "gmock"],
            ":gtest_main": ["gmock_main", "gmock", "gtest"],
        },
    )
    pkg_config_repository(
        name = "com_github_google_benchmark",
        hint = "libbenchmark-dev",
        libs = {":benchmark": ["benchmark"]},
    )
    pkg_config_repository(
        name = "system",
        hint = "libcli11-dev liblz4-dev libprotobuf-dev libseccomp-dev libtomlplusplus-dev libyaml-cpp-dev libzstd-dev nlohmann-json3-dev",
        libs = {
            ":cli11": ["CLI11"],
            ":lz4": ["liblz4"],
            ":nlohmann_json": ["nlohmann_json"],
            ":protobuf": ["protobuf"],
            ":seccomp": ["libseccomp"],
            ":tomlplusplus": ["tomlplusplus"],
            ":yaml_cpp": ["yaml-cpp"],
            ":zstd": ["libzstd"],
        },
    )
