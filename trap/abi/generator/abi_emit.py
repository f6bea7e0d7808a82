"""The C++ text of what is generated."""

import os
import re
import subprocess

from abi_dwarf import Array, Record, flatten, shape
from abi_headers import HEADERS, KEYWORDS, PAD, is_fd, is_pointer
from abi_tree import SDK, driver_version, is_uvm_ioctl, version_suffix


def alignment(type_):
  """What the C++ structure that is generated for `type_` gets from the compiler."""
  if isinstance(type_, Array):
    return alignment(type_.element)
  if isinstance(type_, Record):
    return max([alignment(m.type) for m in type_.members] or [1])
  return type_.size


def describe_difference(old, new):
  """Which members of two layouts of a structure differ, in a few words."""
  def text(m):
    return 'bit field' if m.bits else '%d B' % m.type.size

  before = {m.name or '(anonymous)': m for m in old.members}
  after = {m.name or '(anonymous)': m for m in new.members}
  words = []
  for name, m in after.items():
    if name not in before:
      words.append('+%s @%d (%s)' % (name, m.offset, text(m)))
  for name, m in before.items():
    if name not in after:
      words.append('-%s @%d (%s)' % (name, m.offset, text(m)))
  for name, m in after.items():
    p = before.get(name)
    if p and shape(p.type) != shape(m.type):
      if p.type.size != m.type.size:
        bounds = ''
        if isinstance(m.type, Array) and isinstance(p.type, Array):
          if p.type.bounds != m.type.bounds:
            bounds = ', ' + '[%s] -> [%s]' % ('x'.join(map(str, p.type.bounds)),
                                              'x'.join(map(str, m.type.bounds)))
        words.append('%s %d -> %d B%s' % (name, p.type.size, m.type.size, bounds))
      else:
        inner = m.type.element if isinstance(m.type, Array) else m.type
        before_inner = p.type.element if isinstance(p.type, Array) else p.type
        if isinstance(inner, Record) and isinstance(before_inner, Record):
          words.append('%s: {%s}' % (name, describe_difference(before_inner, inner)))
        else:
          words.append('%s: type' % name)
    if p and p.offset != m.offset:
      words.append('%s @%d -> @%d' % (name, p.offset, m.offset))
  if old.size != new.size:
    words.append('size %d -> %d' % (old.size, new.size))
  if old.shape(False) == new.shape(False):
    words.append('same bytes, other names')
  return '; '.join(words)


def extends(old, new):
  """Has `new` every member of `old` at its place, so that who knows `old` can read and write `new`?"""
  after = {path: (offset, m) for path, offset, m in flatten(new)}
  for path, offset, m in flatten(old):
    if path not in after or after[path][0] != offset:
      return False
    type_ = after[path][1].type
    if isinstance(m.type, Array) and isinstance(type_, Array):
      if shape(m.type.element) != shape(type_.element) or type_.size < m.type.size:
        return False
    elif shape(m.type) != shape(type_):
      return False
  return new.size >= old.size


class Generator:
  """Writes the headers for trees[0] (plain names) and the newer trees (suffixed variants)."""

  def __init__(self, trees):
    self.trees = trees
    self.suffixes = [''] + [version_suffix(t) for t in trees[1:]]
    self.emitted = set()  # C++ names
    self.macro_names = set()
    self.lines = []

  def presence(self, has):
    """Which series have something, as a comment; '' if all.  `has`: does each tree?"""
    series = [driver_version(t).split('.')[0] for t in self.trees]
    first, last = has.index(True), len(has) - 1 - has[::-1].index(True)
    if not all(has[first:last + 1]) or first and last < len(has) - 1 and first != last:
      return 'in ' + ' '.join(each for each, there in zip(series, has) if there)
    if last == len(has) - 1:
      return 'since ' + series[first] if first else ''
    return ('until ' if not first and last else 'only ') + series[last]

  # The C++ name of record `name` as tree `i` lays it out.
  def cpp_name(self, name, i):
    layouts = [t.records.get(name) for t in self.trees[:i + 1]]
    result, last = name, None
    for j, layout in enumerate(layouts):
      if layout is None:
        continue
      if last is not None and layout.shape() != last.shape():
        result = name + self.suffixes[j]
      last = layout
    return result

  def type_text(self, type_, i, indent):
    if isinstance(type_, Record):
      if type_.name:
        return self.cpp_name(type_.name, i)
      return self.body(type_, i, indent)
    return type_.ctype

  def body(self, record, i, indent, name=''):
    pad_count, position = 0, 0
    out = ['%s %s{' % (record.kind, name + ' ' if name else '')]
    inner = indent + '  '
    is_struct = record.kind == 'struct'

    def pad(until):
      nonlocal pad_count, position
      if until > position:
        out.append('%suint8_t %s%d[%d];' % (inner, PAD, pad_count, until - position))
        pad_count += 1
        position = until

    for m in record.members:
      if m.bits:
        out.append('%s%s %s : %d;' % (inner, m.type.ctype, m.name, m.bits[1]))
        position = max(position, (m.bits[0] + m.bits[1] + 7) // 8)
        continue
      if is_struct:
        pad(m.offset)
      type_, bounds = m.type, ''
      if isinstance(type_, Array):
        bounds = ''.join('[%d]' % b for b in type_.bounds)
        type_ = type_.element
      name_ = (m.name or '') + ('_' if m.name in KEYWORDS else '')
      text, remark = self.type_text(type_, i, inner), ''
      if is_fd(m.name, m.type):
        text, remark = 'int32_t', '  // fd'
      elif is_pointer(m.type):
        remark = '  // pointer'
      out.append('%s%s %s%s;%s' % (inner, text, name_, bounds, remark))
      position = m.offset + m.type.size
    if is_struct and not any(m.bits for m in record.members):
      pad(record.size)
    out.append(indent + '}')
    return '\n'.join(out)

  def needs(self, record):
    """Named records that must be declared first."""
    for m in record.members:
      type_ = m.type.element if isinstance(m.type, Array) else m.type
      if isinstance(type_, Record):
        if type_.name:
          yield type_
        else:
          yield from self.needs(type_)

  def emit_record(self, record, i):
    name = self.cpp_name(record.name, i)
    if name in self.emitted:
      return
    self.emitted.add(name)
    for other in self.needs(record):
      self.emit_record(other, i)
    if i and name != record.name:
      older = next(t.records[record.name] for t in reversed(self.trees[:i])
                   if record.name in t.records)
      self.lines.append('// %s: %s' % (self.suffixes[i][2:], describe_difference(older, record)))
    elif presence := self.presence([record.name in t.records or record.name in t.aliases
                                    for t in self.trees]):
      self.lines.append('// ' + presence)
    if not record.members:
      self.lines.append('%s %s {};' % (record.kind, name))
      self.lines.append('')
      return
    self.lines.append(self.body(record, i, '', name) + ';')
    self.lines.append('static_assert(sizeof(%s) == %d);' % (name, record.size))
    if record.kind == 'struct':
      named = [m for m in record.members if m.name and not m.bits]
      wide = [m for m in named if alignment(m.type) == 8 and m.offset]
      key = {m.name: m for m in wide[:2] + named[-1:] if m.offset}
      for m in key.values():
        field = m.name + ('_' if m.name in KEYWORDS else '')
        self.lines.append('static_assert(offsetof(%s, %s) == %d);' % (name, field, m.offset))
    self.lines.append('')

  def emit_versions(self, name):
    """Which layout of a record which branch has, for those that are not in all of them the same."""
    versions = []
    for i, tree in enumerate(self.trees):
      if name in tree.records and (not versions or self.cpp_name(name, i) != versions[-1][1]):
        versions.append((driver_version(tree).split('.')[0], self.cpp_name(name, i), tree.records[name]))
    if len(versions) == 1 and name in self.trees[0].records:
      return
    oldest = versions[0][2]
    listed = ',\n'.join('    Version<%s, %s, %s>' % (branch, cpp, str(extends(oldest, record)).lower())
                        for branch, cpp, record in versions)
    self.lines += ['template <>', 'struct VersionsOf<%s> {' % name, '  using All = Versions<', listed + '>;', '};', '']

  def emit_alias(self, name, i):
    target, _, _ = self.trees[i].aliases[name]
    record = self.trees[i].records.get(target)
    if record is None:
      return
    cpp_target = self.cpp_name(target, i)
    cpp = name
    older = next((j for j in reversed(range(i)) if name in self.trees[j].aliases), None)
    if older is not None:
      if cpp_target == self.cpp_name(self.trees[older].aliases[name][0], older):
        return
      cpp = name + self.suffixes[i]
    elif any(name in t.records for t in self.trees[:i]):  # was a structure of its own
      cpp = name + self.suffixes[i]
    if cpp in self.emitted or cpp_target == cpp:
      return
    self.emit_record(record, i)
    self.emitted.add(cpp)
    self.lines.append('using %s = %s;' % (cpp, cpp_target))
    self.lines.append('')

  def emit_constant(self, name, value, comment='', suffix=''):
    comment = '  // ' + comment if comment else ''
    if isinstance(value, tuple):
      high, low = value
      mask = ((1 << (high - low + 1)) - 1) << low
      kind = 'uint64_t' if high > 31 else 'uint32_t'
      if name + '_MASK' in self.macro_names or name + '_SHIFT' in self.macro_names:
        return
      self.lines.append('inline constexpr uint32_t %s_SHIFT%s = %d;%s' %
                        (name, suffix, low, comment))
      self.lines.append('inline constexpr %s %s_MASK%s = 0x%x;  // %d:%d' %
                        (kind, name, suffix, mask, high, low))
      return
    if -(1 << 31) <= value < 0:
      value &= 0xffffffff
    if value < 0 or value >= 1 << 64:
      return
    kind = 'uint64_t' if value > 0xffffffff else 'uint32_t'
    self.lines.append('inline constexpr %s %s%s = 0x%x;%s' %
                      (kind, name, suffix, value, comment))

  def items(self, header):
    """(file order, file, line) of everything a header shows, newest tree's place first."""
    places = {}
    for i, tree in reversed(list(enumerate(self.trees))):
      found = []
      for name, macro in list(tree.macros.items()) + list(tree.enumerators.items()):
        if header.wants_macro(name, macro):
          found.append(('constant', name, macro.file, macro.line))
      for name, record in tree.records.items():
        if header.wants_record(record):
          found.append(('record', name, record.file, record.line))
      for name, (target, file, line) in tree.aliases.items():
        if header.wants_record(Record('struct', 0, name, file)):
          found.append(('alias', name, file, line))
      for kind, name, file, line in found:
        # Files move among drivers' directories; the relative order is what matters.
        places.setdefault((kind, name), (header.order(file), file, i != len(self.trees) - 1,
                                         line))
    return sorted(((p, kind, name) for (kind, name), p in places.items()),
                  key=lambda x: (x[0], x[1], x[2]))

  def header(self, header, extra_top='', extra_bottom=''):
    self.lines = []
    self.macro_names = set().union(*(set(t.macros) for t in self.trees))
    guard = 'TRAP_ABI_' + re.sub(r'\W', '_', header.name.upper()) + '_'
    last_file = None
    for (_, file, _, _), kind, name in self.items(header):
      if file != last_file:
        self.lines += ['', '// From %s' % file, '']
        last_file = file
      if kind == 'constant':
        if name in self.emitted:
          continue
        self.emitted.add(name)
        previous = None
        for i, tree in enumerate(self.trees):
          macro = tree.macros.get(name) or tree.enumerators.get(name)
          if macro is None or macro.value == previous:
            continue
          if previous is None:
            self.emit_constant(name, macro.value, self.presence(
                [name in t.macros or name in t.enumerators for t in self.trees]))
          else:
            self.emit_constant(name, macro.value, suffix=self.suffixes[i])
          previous = macro.value
      elif kind == 'record':
        for i, tree in enumerate(self.trees):
          if name in tree.records:
            self.emit_record(tree.records[name], i)
        self.emit_versions(name)
      else:
        for i, tree in enumerate(self.trees):
          if name in tree.aliases:
            self.emit_alias(name, i)
    body = '\n'.join(self.lines)
    uses = ['#include <cstddef>', '#include <cstdint>', '', '#include "trap/abi/versions.h"']
    uses += ['#include "%s"' % h for h in header.includes]
    return '\n'.join(
        ['// ' + header.title, '//', *GENERATED, '#ifndef ' + guard, '#define ' + guard, '', *uses,
         '', 'namespace phantora::abi {', extra_top, body, extra_bottom, '',
         '}  // namespace phantora::abi', '', '#endif  // ' + guard, ''])


GENERATED = (
    '// Generated by trap/abi/generator/abi_layouts.py from the driver\'s published headers; do not edit.',
    "// Facts only: NVIDIA's names, numbers and byte layouts.  The plain name is the layout of the",
    '// oldest supported driver (535); a name with a suffix such as _V550 is what the driver of that',
    '// branch changed, and VersionsOf lists them.  A range of bits became NAME_SHIFT and NAME_MASK (the mask in place).  abi_pad<N> is',
    '// padding.  Members marked `pointer` or `fd` are addresses or descriptors of the calling',
    '// process.',
)


def lookup_source(header, function, what, entries, parameter='value', others=None):
  """A .cc file with a sorted table and a binary search; `others`: number -> names it had before."""
  others = others or {}
  rows = ''.join(''.join('    // Also %s.\n' % other for other in sorted(others.get(v, ()))) +
                 '    {0x%x, "%s"},\n' % (v, n) for v, n in sorted(entries.items()))
  return '''// %s
//
// Generated by trap/abi/generator/abi_layouts.py from the driver's published headers; do not edit.
#include "%s"

#include <algorithm>
#include <iterator>

namespace phantora::abi {
namespace {

struct Entry {
  uint32_t value;
  const char* name;
};

// Sorted by value.
constexpr Entry kEntries[] = {
%s};

}  // namespace

const char* %s(uint32_t %s) {
  const Entry* entry =
      std::lower_bound(std::begin(kEntries), std::end(kEntries), %s,
                       [](const Entry& e, uint32_t v) { return e.value < v; });
  return entry != std::end(kEntries) && entry->value == %s ? entry->name : nullptr;
}

}  // namespace phantora::abi
''' % (what, header, rows, function, parameter, parameter, parameter)


def merged(trees, method):
  """Union of number -> name over the trees; the newest tree's name wins."""
  result = {}
  for tree in trees:
    result.update(getattr(tree, method)())
  return result


def other_names(trees, method):
  """number -> names that merged() leaves out."""
  last, result = merged(trees, method), {}
  for tree in trees:
    for number, name in getattr(tree, method)().items():
      if last[number] != name:
        result.setdefault(number, set()).add(name)
  return result


def clang_format(path):
  subprocess.run(['clang-format', '-i', '--style={BasedOnStyle: Google, ColumnLimit: 100, '
                  'DerivePointerAlignment: false, PointerAlignment: Left}', path], check=True)


def declaration(function, parameter, comment):
  return '\n// %s\nconst char* %s(uint32_t %s);' % (comment, function, parameter)


def small_header(name, title, body):
  guard = 'TRAP_ABI_' + re.sub(r'\W', '_', name.upper()) + '_'
  return '\n'.join(['// ' + title, '//', *GENERATED, '#ifndef ' + guard, '#define ' + guard, '',
                    '#include <cstdint>', '', 'namespace phantora::abi {', body, '',
                    '}  // namespace phantora::abi', '', '#endif  // ' + guard, ''])


# Several classes have synonyms; these are the ones the driver itself uses.
PREFERRED_CLASS_NAMES = ('NV01_ROOT', 'NV01_MEMORY_SYSTEM', 'NV01_MEMORY_LOCAL_PRIVILEGED',
                         'NV01_MEMORY_LOCAL_USER', 'NV01_MEMORY_VIRTUAL', 'NV01_CONTEXT_DMA')


def class_names(trees):
  """(name -> number, number -> preferred name)."""
  numbers, preferred = {}, {}
  for tree in trees:
    listed = tree.listed_classes()
    for name, number in tree.class_numbers().items():
      numbers[name] = number
      rank = (bool(re.match(r'NV\d_', name)), name not in listed, not name.startswith('NV01_'),
              len(name), name)
      if number not in preferred or rank < preferred[number]:
        preferred[number] = rank
  names = {v: rank[-1] for v, rank in preferred.items()}
  names.update({numbers[n]: n for n in PREFERRED_CLASS_NAMES if n in numbers})
  return numbers, names


def write_status(trees, write):
  """nv_status.h and .cc; returns name -> value."""
  status, last = {}, {}
  for tree in trees:
    for name, value in tree.status_codes().items():
      if last.get(name) != value:
        status[name + (version_suffix(tree) if name in last else '')] = last[name] = value
  rows = '\n'.join('inline constexpr uint32_t %s = 0x%x;' % (n, v)
                   for n, v in sorted(status.items(), key=lambda x: (x[1], x[0])))
  write('nv_status.h', small_header(
      'nv_status.h', 'Status codes of the resource manager.',
      '\n// From %s/nvstatuscodes.h\n\n%s\n%s' % (SDK, rows, declaration(
          'NvStatusName', 'status', 'The name of a status code, or nullptr if it has none.'))))
  write('nv_status.cc', lookup_source('trap/abi/generated/nv_status.h', 'NvStatusName',
                                      'Names of the status codes.',
                                      {v: re.sub(r'_V\d{3}$', '', n) for n, v in status.items()},
                                      'status'))
  return status


def ioctl_names(trees):
  """(number -> name of the escapes, number -> name of the UVM ioctls)."""
  escapes, uvm = {}, {}
  for tree in trees:
    for name, macro in tree.macros.items():
      if name.startswith('NV_ESC_') and os.path.basename(macro.file) in (
          'nv_escape.h', 'nv-ioctl-numbers.h', 'nv-ioctl-numa.h'):
        escapes[macro.value] = name
      if name.startswith('UVM_') and is_uvm_ioctl(tree, name):
        uvm[macro.value] = name
  return escapes, uvm


def write_headers(trees, generator, class_numbers, write):
  """The headers of structures and constants."""
  extras = {
      'escapes.h': ('', declaration('EscapeName', 'nr', 'The name of an NV_ESC_* ioctl number, or '
                                    'nullptr if it is none.')),
      'uvm_ioctl.h': ('', declaration('UvmIoctlName', 'nr', 'The name of a UVM ioctl, or nullptr '
                                      'if it is none.')),
      'rm_classes.h': ('', declaration('RmClassName', 'rm_class', 'The name of a class, or nullptr '
                                       'if it is unknown.')),
  }
  for header in HEADERS:
    top, bottom = extras.get(header.name, ('', ''))
    if header.name == 'rm_classes.h':  # some class numbers are defined by nvos.h: in escapes.h
      rows = '\n'.join('inline constexpr uint32_t %s = 0x%x;' % (n, v)
                       for n, v in sorted(class_numbers.items(), key=lambda x: (x[1], x[0]))
                       if n not in generator.emitted)
      top = ('\n// Class numbers, from %s/class/cl*.h and src/nvidia/generated/g_allclasses.h\n\n'
             '%s\n' % (SDK, rows))
      generator.emitted.update(class_numbers)
    write(header.name, generator.header(header, top, bottom))


def write_names(trees, class_names_by_number, write):
  """The look-up functions from numbers to names."""
  escapes, uvm = ioctl_names(trees)
  write('escapes.cc', lookup_source('trap/abi/generated/escapes.h', 'EscapeName',
                                    'Names of the ioctls.', escapes, 'nr'))
  write('uvm_ioctl.cc', lookup_source('trap/abi/generated/uvm_ioctl.h', 'UvmIoctlName',
                                      'Names of the UVM ioctls.', uvm, 'nr'))
  write('rm_classes.cc', lookup_source('trap/abi/generated/rm_classes.h', 'RmClassName',
                                       'Names of the classes.', class_names_by_number, 'rm_class'))
  write('rm_control_names.h', small_header(
      'rm_control_names.h', 'Names of every resource manager control in the SDK.',
      declaration('RmControlName', 'cmd', 'The name of a control, or nullptr if it is unknown '
                  '(several are not in the published SDK).')))
  write('rm_control_names.cc', lookup_source(
      'trap/abi/generated/rm_control_names.h', 'RmControlName', 'Names of the controls.',
      merged(trees, 'control_names'), 'cmd', other_names(trees, 'control_names')))


def generate(trees, out):
  generator = Generator(trees)
  written = []

  def write(name, text):
    path = os.path.join(out, name)
    with open(path, 'w') as f:
      f.write(text)
    clang_format(path)
    written.append(path)

  generator.emitted.update(write_status(trees, write))
  numbers, preferred = class_names(trees)
  write_headers(trees, generator, numbers, write)
  write_names(trees, preferred, write)
  return written
