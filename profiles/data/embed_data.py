"""Writes a C++ file that defines a function which returns the given files.

usage: embed_data.py OUTPUT HEADER FUNCTION FILE...
"""

import sys


def main():
    output, header, function, files = sys.argv[1], sys.argv[2], sys.argv[3], sys.argv[4:]
    with open(output, "w", encoding="utf-8") as out:
        out.write('#include "%s"\n\nnamespace phantora {\n\n' % header)
        out.write("const std::vector<EmbeddedFile>& %s() {\n" % function)
        out.write("  static const std::vector<EmbeddedFile> files = {\n")
        for name in files:
            with open(name, encoding="utf-8") as source:
                # The delimiter cannot occur in the data files, which are text.
                out.write('      {"%s", R"phantora(%s)phantora"},\n' % (name, source.read()))
        out.write("  };\n  return files;\n}\n\n}  // namespace phantora\n")


if __name__ == "__main__":
    main()
