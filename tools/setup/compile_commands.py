#!/usr/bin/env python3
"""Writes compile_commands.json, which clangd and clang-tidy read, from `bazel aquery`.

    tools/setup/compile_commands.py [target pattern, default //...]
"""

import json
import pathlib
import subprocess
import sys

# Understood by GCC only; clang-based tools complain about them.
GCC_ONLY = {"-fno-canonical-system-headers", "-Wno-free-nonheap-object", "-Wunused-but-set-parameter"}


def bazel(*arguments, cwd=None):
    command = ["bazel", *arguments]
    result = subprocess.run(command, cwd=cwd, text=True, capture_output=True)
    if result.returncode:
        sys.exit(f"{' '.join(command)} failed:\n{result.stderr}")
    return result.stdout


def entries(workspace, pattern):
    """Yields one entry for each source file of ours that the targets compile."""
    query = f'mnemonic("CppCompile", {pattern})'
    actions = json.loads(bazel("aquery", "--output=jsonproto", "--include_artifacts=false", query, cwd=workspace))
    seen = set()
    for action in actions.get("actions", []):
        arguments = action["arguments"]
        source = arguments[arguments.index("-c") + 1]
        if source in seen or source.startswith(("external/", "bazel-out/")):
            continue
        seen.add(source)
        yield {
            "directory": workspace,
            "file": source,
            "arguments": [a for a in arguments if a not in GCC_ONLY],
        }


def main():
    pattern = sys.argv[1] if len(sys.argv) > 1 else "//..."
    workspace = bazel("info", "workspace", cwd=pathlib.Path(__file__).resolve().parents[2]).strip()
    commands = sorted(entries(workspace, pattern), key=lambda entry: entry["file"])
    path = pathlib.Path(workspace, "compile_commands.json")
    path.write_text(json.dumps(commands, indent=1) + "\n", encoding="utf-8")
    print(f"{path}: {len(commands)} files")


if __name__ == "__main__":
    main()
