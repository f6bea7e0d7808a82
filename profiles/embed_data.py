"""Writes a C++ file that defines EmbeddedData() with the given files.

usage: embed_data.py OUTPUT FILE...
"""

import sys


def main():
    output, files = sys.argv[1], sys.argv[2:]
    with open(output, "w", encoding="utf-8") as out:
        out.write('#include "profiles/embedded_data.h"\n\nnamespace phantora {\n\n')
        out.write("const std::vector<EmbeddedFile>& EmbeddedData() {\n")
        out.write("  static const std::vector<EmbeddedFile> files = {\n")
        for name in files:
            with open(name, encoding="utf-8") as source:
                # The delimiter cannot occur in the data files, which are JSON.
                out.write('      {"%s", R"phantora(%s)phantora"},\n' % (name, source.read()))
        out.write("  };\n  return files;\n}\n\n}  // namespace phantora\n")


if __name__ == "__main__":
    main()
