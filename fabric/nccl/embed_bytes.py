"""Writes a C++ file that defines functions in phantora::nccl which return the bytes of files.

usage: embed_bytes.py OUTPUT HEADER FUNCTION=FILE...
"""

import struct
import sys


def main():
    output, header, pairs = sys.argv[1], sys.argv[2], sys.argv[3:]
    with open(output, "w", encoding="utf-8") as out:
        out.write('#include "%s"\n\n#include <cstdint>\n\nnamespace phantora::nccl {\n' % header)
        for pair in pairs:
            function, name = pair.split("=", 1)
            with open(name, "rb") as source:
                data = source.read()
            # Words, because compilers read them several times faster than bytes. One zero at least.
            padded = data + bytes(8 - len(data) % 8)
            words = ["0x%x" % word for (word,) in struct.iter_unpack("<Q", padded)]
            out.write("namespace {\nalignas(64) const uint64_t k%s[] = {\n" % function)
            for start in range(0, len(words), 8):
                out.write("    " + ", ".join(words[start : start + 8]) + ",\n")
            out.write("};\n}  // namespace\n")
            out.write("std::string_view %s() {\n" % function)
            out.write("  return {reinterpret_cast<const char*>(k%s), %d};\n}\n" % (function, len(data)))
        out.write("}  // namespace phantora::nccl\n")


if __name__ == "__main__":
    main()
