"""Writes a C++ file that defines functions which return the bytes of files.

usage: embed_bytes.py [--namespace NAMESPACE] OUTPUT HEADER FUNCTION=FILE...
"""

import struct
import sys


def main():
    arguments, namespace = sys.argv[1:], "phantora::nccl"
    if arguments[0] == "--namespace":
        namespace, arguments = arguments[1], arguments[2:]
    output, header, pairs = arguments[0], arguments[1], arguments[2:]
    with open(output, "w", encoding="utf-8") as out:
        out.write('#include "%s"\n\n#include <cstdint>\n\nnamespace %s {\n' % (header, namespace))
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
        out.write("}  // namespace %s\n" % namespace)


if __name__ == "__main__":
    main()
