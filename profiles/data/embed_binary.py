"""Writes assembly that holds the given files, and a C++ file with a function that returns them.

usage: embed_binary.py OUTPUT.cc OUTPUT.S HEADER FUNCTION FILE...
"""

import sys


def main():
    code, assembly, header, function, files = (*sys.argv[1:5], sys.argv[5:])
    with open(assembly, "w", encoding="utf-8") as out:
        out.write('  .section .rodata\n')
        for i, name in enumerate(files):
            for label in (f"{function}{i}", f"{function}{i}End"):
                out.write(f"  .globl {label}\n  .hidden {label}\n")
            out.write(f'{function}{i}:\n  .incbin "{name}"\n{function}{i}End:\n')
        out.write('  .section .note.GNU-stack,"",@progbits\n')
    with open(code, "w", encoding="utf-8") as out:
        out.write(f'#include "{header}"\n\n')
        for i in range(len(files)):
            out.write(f"extern \"C\" const char {function}{i}[], {function}{i}End[];\n")
        out.write("\nnamespace phantora {\n\n")
        out.write(f"const std::vector<EmbeddedFile>& {function}() {{\n")
        out.write("  static const std::vector<EmbeddedFile> files = {\n")
        for i, name in enumerate(files):
            size = f"static_cast<size_t>({function}{i}End - {function}{i})"
            out.write(f'      {{"{name}", {{{function}{i}, {size}}}}},\n')
        out.write("  };\n  return files;\n}\n\n}  // namespace phantora\n")


if __name__ == "__main__":
    main()
