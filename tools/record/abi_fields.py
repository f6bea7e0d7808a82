"""Writes the members of trap/abi's structures as C++ tables (abi_fields.h).

usage: abi_fields.py fields OUTPUT NAMES HEADER...    NAMES: rm_control_names.cc
       abi_fields.py uvm OUTPUT HEADER...             rows of kUvmBlocks (block_sizes.h)

The headers are written by trap/abi/generator/abi_layouts.py, which is what makes this simple: one member a line,
types of fixed width, all padding explicit, sizes asserted. What does not fit is an error.
"""

import re
import sys

SCALARS = {"uint8_t": 1, "uint16_t": 2, "uint32_t": 4, "uint64_t": 8, "int8_t": 1, "int16_t": 2,
           "int32_t": 4, "int64_t": 8, "char": 1, "float": 4, "double": 8}
MEMBER = re.compile(r"(\w+) (\w+)((?:\[\d+\])*);(?:\s*// (.*))?$")
# Lists of {index, data} pairs, by the name of the member that holds or points to them.
INDEX_PREFIXES = {
    "biosInfoList": "NV2080_CTRL_BIOS_INFO_INDEX_",
    "busInfoList": "NV2080_CTRL_BUS_INFO_INDEX_",
    "fbInfoList": "NV2080_CTRL_FB_INFO_INDEX_",
    "gpuInfoList": "NV2080_CTRL_GPU_INFO_INDEX_",
    "grInfoList": "NV0080_CTRL_GR_INFO_INDEX_",
}
# Controls whose parameters are named after something else.
OTHER_NAMES = {
    "NV0080_CTRL_CMD_PERF_CUDA_LIMIT_SET_CONTROL": "NV0080_CTRL_PERF_CUDA_LIMIT_CONTROL_PARAMS",
    "NV2080_CTRL_CMD_GR_GET_CAPS_V2": "NV0080_CTRL_GR_GET_CAPS_V2_PARAMS",
}


class Record:
    def __init__(self, name, is_union):
        self.name, self.is_union = name, is_union
        self.fields = []  # (name, offset, bytes, count, is_array, kind, record)
        self.size, self.alignment = 0, 1

    def add(self, name, element, alignment, count, is_array, kind, record):
        offset = 0 if self.is_union else -(-self.size // alignment) * alignment
        if not name.startswith("abi_pad"):
            self.fields.append((name, offset, element, count, is_array, kind, record))
        self.size = max(self.size, offset + element * count)
        self.alignment = max(self.alignment, alignment)

    def close(self):
        self.size = -(-self.size // self.alignment) * self.alignment


class Parser:
    def __init__(self):
        self.records = []  # in order, inner ones first
        self.by_name = {}
        self.constants = {}
        self.sizes_checked = 0

    def read(self, path):
        with open(path, encoding="utf-8") as file:
            lines = file.read().splitlines()
        stack = []
        for number, line in enumerate(lines, 1):
            text = line.strip()
            if match := re.match(r"(struct|union) (\w+) \{$", text):
                stack.append(Record(match.group(2), match.group(1) == "union"))
            elif match := re.match(r"(struct|union) \{$", text):
                stack.append(Record(None, match.group(1) == "union"))
            elif stack and (match := re.match(r"\}( (\w+)((?:\[\d+\])*))?;", text)):
                self._close(stack, match.group(2) or "", match.group(3) or "")
            elif stack and (match := MEMBER.match(text)):
                self._member(stack[-1], *match.groups(), where="%s:%d" % (path, number))
            elif stack and text and not text.startswith("//"):
                sys.exit("%s:%d: cannot read: %s" % (path, number, text))
            elif match := re.match(r"using (\w+) = (\w+);", text):
                if match.group(2) in self.by_name:
                    self.by_name[match.group(1)] = self.by_name[match.group(2)]
            elif match := re.match(r"static_assert\(sizeof\((\w+)\) == (\d+)\);", text):
                size = self.by_name[match.group(1)].size
                if size != int(match.group(2)):
                    sys.exit("%s:%d: read as %d bytes" % (path, number, size))
                self.sizes_checked += 1
            elif match := re.match(r"inline constexpr uint32_t (\w+) = (0x[0-9a-f]+|\d+);", text):
                self.constants[match.group(1)] = int(match.group(2), 0)

    @staticmethod
    def _count(bounds):
        count = 1
        for bound in re.findall(r"\d+", bounds):
            count *= int(bound)
        return count

    def _close(self, stack, name, bounds):
        record = stack.pop()
        record.close()
        self.records.append(record)
        if record.name:
            self.by_name[record.name] = record
        if stack:
            stack[-1].add(name, record.size, record.alignment, self._count(bounds), bool(bounds),
                          "kRecord", record)

    def _member(self, record, type_, name, bounds, comment, where):
        count = self._count(bounds)
        if type_ in SCALARS:
            size = SCALARS[type_]
            kind = ("kPointer" if comment == "pointer" else
                    "kDescriptor" if comment == "fd" else
                    "kChar" if type_ == "char" else
                    "kSigned" if type_.startswith("int") else "kUnsigned")
            record.add(name, size, size, count, bool(bounds), kind, None)
        elif type_ in self.by_name:
            inner = self.by_name[type_]
            record.add(name, inner.size, inner.alignment, count, bool(bounds), "kRecord", inner)
        else:
            sys.exit("%s: unknown type %s" % (where, type_))


def control_names(path):
    """(number, name) of every control; numbers in C++."""
    with open(path, encoding="utf-8") as file:
        return re.findall(r'\{(0x[0-9a-f]+), "(\w+)"\}', file.read())


def control_records(parser, names):
    """(command, record) of every control whose parameters are known; newer layouts last."""
    rows, later = [], {}
    for name in sorted(parser.by_name):
        if match := re.fullmatch(r"(\w+)_V\d+", name):
            later.setdefault(match.group(1), []).append(name)
    for number, name in control_names(names):
        candidates = [name + "_PARAMS", name.replace("_CTRL_CMD_", "_CTRL_") + "_PARAMS",
                      name.replace("_CTRL_CMD_", "_") + "_PARAMS", OTHER_NAMES.get(name)]
        for candidate in candidates:
            if candidate in parser.by_name:
                rows += [(int(number, 16), parser.by_name[version]) for version in [candidate, *later.get(candidate, [])]]
                break
    return sorted(rows, key=lambda row: row[0])


def index_names(parser, prefix):
    """Sorted (value, name) of the indices; the constants also have what an index's data may be."""
    names = [name for name in parser.constants if name.startswith(prefix)]
    by_value = {}
    for name in names:
        is_value = any(name.startswith(other + "_") for other in names if other != prefix + "MAX")
        range_of = re.sub("_(SHIFT|MASK)$", "", name)
        is_range = range_of + "_SHIFT" in names and range_of + "_MASK" in names
        if not is_value and not is_range and name != prefix + "MAX":
            by_value.setdefault(parser.constants[name], name[len(prefix):])
    return sorted(by_value.items())


# The functions that read what write_fields() writes.
LOOKUPS = """};

}  // namespace

bool CommandOf(absl::string_view name, uint32_t* command) {
  const auto* found =
      std::lower_bound(std::begin(kCommands), std::end(kCommands), name,
                       [](const auto& row, absl::string_view n) { return row.name < n; });
  if (found == std::end(kCommands) || found->name != name) return false;
  *command = found->command;
  return true;
}

const char* IndexName(absl::string_view list, uint32_t index) {
  for (const Index& row : kIndices) {
    if (row.value == index && row.list == list) return row.name;
  }
  return nullptr;
}

const AbiRecord* FindRecord(absl::string_view name) {
  const Named* found =
      std::lower_bound(std::begin(kNames), std::end(kNames), name,
                       [](const Named& named, absl::string_view n) { return named.name < n; });
  return found != std::end(kNames) && found->name == name ? &kRecords[found->record] : nullptr;
}

const AbiRecord* ControlRecord(uint32_t command, uint32_t size) {
  const Control* found = std::lower_bound(
      std::begin(kControls), std::end(kControls), command,
      [](const Control& control, uint32_t c) { return control.command < c; });
  for (; found != std::end(kControls) && found->command == command; ++found) {
    if (kRecords[found->record].bytes == size) return &kRecords[found->record];
  }
  return nullptr;
}

}  // namespace phantora::record
"""


def write_fields(parser, names, out):
    index = {id(record): i for i, record in enumerate(parser.records)}
    out.write('#include "tools/record/abi_fields.h"\n\n#include <algorithm>\n#include <iterator>\n\n'
              "namespace phantora::record {\nnamespace {\n\nextern const AbiRecord kRecords[%d];\n\n"
              "constexpr AbiField kFields[] = {\n" % len(parser.records))
    rows, first = [], 0
    for record in parser.records:
        for name, offset, size, count, is_array, kind, inner in record.fields:
            pointer = "&kRecords[%d]" % index[id(inner)] if inner else "nullptr"
            out.write('    {"%s", %d, %d, %d, %s, FieldKind::%s, %s},\n' %
                      (name, offset, size, count, str(is_array).lower(), kind, pointer))
        rows.append('    {"%s", %d, %s, kFields + %d, %d},\n' %
                    (record.name or "", record.size, str(record.is_union).lower(), first,
                     len(record.fields)))
        first += len(record.fields)
    out.write("};\n\nconst AbiRecord kRecords[%d] = {\n" % len(parser.records) + "".join(rows) + "};\n\n")
    out.write("struct Named {\n  absl::string_view name;\n  uint32_t record;\n};\n"
              "// Sorted by name.\nconstexpr Named kNames[] = {\n")
    for name in sorted(parser.by_name):
        out.write('    {"%s", %d},\n' % (name, index[id(parser.by_name[name])]))
    out.write("};\n\nstruct Control {\n  uint32_t command, record;\n};\n"
              "// Sorted by command.\nconstexpr Control kControls[] = {\n")
    for command, record in control_records(parser, names):
        out.write("    {0x%x, %d},\n" % (command, index[id(record)]))
    out.write("};\n\nstruct Index {\n  absl::string_view list;\n  uint32_t value;\n"
              "  const char* name;\n};\nconstexpr Index kIndices[] = {\n")
    for list_name, prefix in INDEX_PREFIXES.items():
        for value, name in index_names(parser, prefix):
            out.write('    {"%s", %d, "%s"},\n' % (list_name, value, name))
    out.write("};\n\n// Sorted by name.\nconstexpr struct {\n  absl::string_view name;\n"
              "  uint32_t command;\n} kCommands[] = {\n")
    for number, name in sorted(control_names(names), key=lambda pair: pair[1]):
        out.write('    {"%s", %s},\n' % (name, number))
    out.write(LOOKUPS)


def write_uvm(parser, out):
    for name, number in sorted(parser.constants.items(), key=lambda item: item[1]):
        record = parser.by_name.get(name + "_PARAMS")
        if record is None or not name.startswith("UVM_"):
            continue
        out.write('{0x%x, "%s", LargestLayout<abi::%s>()},\n' % (number, name + "_PARAMS", name + "_PARAMS"))


def main():
    what, output, inputs = sys.argv[1], sys.argv[2], sys.argv[3:]
    parser = Parser()
    for header in inputs[1:] if what == "fields" else inputs:
        parser.read(header)
    if parser.sizes_checked == 0:
        sys.exit("no structures in " + " ".join(inputs))
    with open(output, "w", encoding="utf-8") as out:
        if what == "fields":
            write_fields(parser, inputs[0], out)
        else:
            write_uvm(parser, out)


if __name__ == "__main__":
    main()
