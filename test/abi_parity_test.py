#!/usr/bin/env python3
"""Compares trap/abi with the headers NVIDIA publishes for the supported drivers.

A wrong offset in an ioctl's parameters shows up as a crash deep inside libcuda, so every structure
and every number in trap/abi is compared with the compiler's view of NVIDIA's own headers:

  * each named structure's size, and the offset and size of each of its members down to the leaves;
  * that neither side has a member which the other lacks;
  * which members are pointers or file descriptors (trap/abi marks them in comments, because those
    need translation: a member that became one must not pass as a plain number);
  * each constant; each status, ioctl, class and control name that the look-up functions return.

The headers come from the cache that tools/setup.sh fills,
    ${PHANTORA_CACHE:-~/.cache/phantora}/drivers/<version>/src/{kernel-open,src}
or, in the same layout, from PHANTORA_ABI_TREES/<version>.  Where the SDK (`src`) is missing, what
kernel-open covers is compared and the rest is listed as not checked.

The two sides never meet in one translation unit: NVIDIA's names are macros and global typedefs,
ours live in a namespace.  One program per side prints its facts, and this script compares them.
"""

import os
import pwd
import re
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
if 'TEST_SRCDIR' in os.environ:
  ROOT = os.path.join(os.environ['TEST_SRCDIR'], os.environ.get('TEST_WORKSPACE', ''))
sys.path.insert(0, os.path.join(ROOT, 'trap', 'abi', 'generator'))
import abi_dwarf  # noqa: E402  (found through the line above)
import abi_headers  # noqa: E402
import abi_tree  # noqa: E402

# Driver series -> suffix of what changed in it (abi_layouts' naming), oldest first.
SERIES = {series: '_V%d' % series for series in (535, 545, 550, 555, 560, 565, 570, 575, 580, 590, 595)}
SERIES[535] = ''
# Series whose headers tools/setup.sh does not fetch: compared where they are there.
OPTIONAL_SERIES = {545, 560, 565, 570, 575, 580, 590, 595}
HEADERS = ('nv_status.h', 'escapes.h', 'rm_classes.h', 'rm_controls.h', 'uvm_ioctl.h',
           'rm_control_names.h')
MAX_REPORTED = 200


class Ours:
  """trap/abi: structures from the compiler's debug information, the rest from the text."""

  def __init__(self, scratch):
    self.scratch = scratch
    self.directory = os.path.join(ROOT, 'trap', 'abi', 'generated')
    self.constants = {}  # name -> Note
    self.records = {}  # name -> Note
    self.aliases = {}  # name -> (target, Note)
    self.names = {}  # number -> names that it has in any series
    self.markers = {}  # (record, path) -> 'pointer' or 'fd'
    for header in HEADERS:
      self._scan(header)
    self._scan_names('rm_control_names.cc')
    source, binary = os.path.join(scratch, 'ours.cc'), os.path.join(scratch, 'ours.o')
    with open(source, 'w') as f:
      f.write(self.includes())
    subprocess.run(self.compiler() + ['-g', '-gdwarf-4', '-fno-eliminate-unused-debug-types',
                                      '-c', source, '-o', binary], check=True)
    self.layouts = abi_dwarf.Dwarf(binary, lambda path: path).names
    lost = [n for n in self.records if n not in self.layouts]
    if lost:
      raise SystemExit('the compiler does not know ' + ', '.join(lost))

  def includes(self):
    return ''.join('#include "trap/abi/generated/%s"\n' % h for h in HEADERS)

  def compiler(self):
    return ['g++', '-std=c++20', '-w', '-I' + ROOT]

  def _scan(self, header):
    """Reads the comments of a generated header: origin, driver series, pointers, descriptors."""
    origin, pending, stack, found = '', None, [], []
    for where, line in self._lines(header):
      if m := re.match(r'// From (\S+)$', line):
        origin = m.group(1)
      elif re.match(r'// Class numbers, from ', line):
        origin = abi_headers.CLASS
      elif not stack and (m := re.match(PRESENCE + '$', line)):
        pending = presence(m)
      elif m := re.match(r'inline constexpr uint(32|64)_t (\w+) = (0x[0-9a-f]+|\d+);', line):
        note = re.search(PRESENCE + '$', line)
        self.constants[m.group(2)] = Note(where, origin, presence(note) if note else None)
        self.names.setdefault(int(m.group(3), 0), set()).add(base_name(m.group(2))[0])
      elif m := re.match(r'using (\w+) = (\w+);', line):
        self.aliases[m.group(1)] = (m.group(2), Note(where, origin, pending))
        pending = None
      elif m := re.match(r'\s*(struct|union)( \w+)? \{(\};)?$', line):
        if not stack:
          self.records[m.group(2).strip()] = Note(where, origin, pending)
          pending = None
        if not m.group(3):
          stack.append((m.group(2) or '').strip())
          found.append([])
      elif stack and (m := re.match(r'\s*\}(?: (\w+))?((?:\[\d+\])*);', line)):
        name, members = stack.pop(), found.pop()
        prefix = m.group(1) + '[0]' * m.group(2).count('[') + '.' if m.group(1) else ''
        for path, marker in members:
          if stack:
            found[-1].append((prefix + path, marker))
          else:
            self.markers[(name, path)] = marker
      elif stack and (m := re.match(r'\s*\w+ (\w+)(?:\[\d+\])*;\s+// (pointer|fd)$', line)):
        found[-1].append((m.group(1), m.group(2)))
      elif stack and not re.match(r'\s*\w+ \w+(\[\d+\])*;$', line):
        raise SystemExit('%s: cannot read %r' % (where, line))

  def _scan_names(self, source):
    """Names that a number had in other series than the one whose name is looked up."""
    others = []
    with open(os.path.join(self.directory, source)) as f:
      for line in f:
        if m := re.match(r'\s*// Also (\w+)\.$', line):
          others.append(m.group(1))
        elif m := re.match(r'\s*\{(0x[0-9a-f]+), "(\w+)"\},$', line):
          if others:
            self.names.setdefault(int(m.group(1), 0), set()).update(others + [m.group(2)])
          others = []

  def _lines(self, header):
    """(place, line), with the declarations that clang-format wrapped put back on one line."""
    with open(os.path.join(self.directory, header)) as f:
      lines = f.read().split('\n')
    start = ''
    for number, line in enumerate(lines, 1):
      line, start = (start + ' ' + line.strip() if start else line), ''
      if re.match(r'(inline constexpr|using) [^;]*$|\s+[A-Z]\w+$', line):
        start = line
        continue
      yield '%s:%d' % (header, number), line

  def members(self, name):
    """path -> marker or '' for each leaf, padding excluded, nested named records included."""
    found = {}

    def walk(record, owner, inner, prefix):
      for m in record.members:
        if (m.name or '').startswith(abi_headers.PAD):
          continue
        if m.bits:
          raise SystemExit('%s.%s: bit fields are not supported' % (name, m.name))
        type_, path = m.type, m.name or ''
        if isinstance(type_, abi_dwarf.Array) and isinstance(type_.element, abi_dwarf.Record):
          path += '[0]' * len(type_.bounds)
          type_ = type_.element
        if isinstance(type_, abi_dwarf.Record):
          separator = '.' if m.name else ''
          if type_.name:  # its markers are listed under its own name
            walk(type_, type_.name, '', prefix + path + separator)
          else:
            walk(type_, owner, inner + path + separator, prefix + path + separator)
        else:
          found[prefix + path] = self.markers.get((owner, inner + path), '')

    walk(self.layouts[name], name, '', '')
    return found


# Which series have something, in a comment of a generated header.
PRESENCE = r'// (since|until|only|in) (\d+(?: \d+)*)'


def presence(match):
  return match.group(1), [int(number) for number in match.group(2).split()]


class Note:
  """Where something of trap/abi is, which file it came from, which series have it."""

  def __init__(self, where, origin, series):
    self.where, self.origin, self.series = where, origin, series

  def in_series(self, series):
    if self.series is None:
      return True
    kind, numbers = self.series
    return {'since': series >= numbers[0], 'until': series <= numbers[0], 'only': series == numbers[0],
            'in': series in numbers}[kind]


def base_name(name):
  """(NVIDIA's name or NVIDIA's name_SHIFT/_MASK, series) of one of our names."""
  for series, suffix in SERIES.items():
    if suffix and name.endswith(suffix):
      return name[:-len(suffix)], series
  return name, None


def select(names, series):
  """NVIDIA's name -> ours, for a driver series: the newest variant that is not newer."""
  chosen = {}
  for name in names:
    base, since = base_name(name)
    if since is not None and since > series:
      continue
    if base not in chosen or (since or 0) > chosen[base][1]:
      chosen[base] = (name, since or 0)
  return {base: name for base, (name, _) in chosen.items()}


def run_program(scratch, stem, text, command):
  source = os.path.join(scratch, stem)
  with open(source, 'w') as f:
    f.write(text)
  subprocess.run(command + [source, '-o', source + '.exe'], check=True)
  output = subprocess.run([source + '.exe'], check=True, capture_output=True, text=True).stdout
  return dict(line.rsplit(' = ', 1) for line in output.splitlines())


def table_program(includes, rows, tail=''):
  """A program that prints `key = value`; rows are (key, constant expression)."""
  body = ''.join('  {"%s", (unsigned long long)(%s)},\n' % row for row in rows)
  return '''%s
#include <stddef.h>
#include <stdio.h>
static const struct { const char* key; unsigned long long value; } kRows[] = {
  {"", 0},
%s};
int main(void) {
  for (size_t i = 1; i < sizeof(kRows) / sizeof(kRows[0]); ++i)
    printf("%%s = %%llu\\n", kRows[i].key, kRows[i].value);
%s  return 0;
}
''' % (includes, body, tail)


class Comparison:
  """One driver version against trap/abi."""

  def __init__(self, version, root, ours, scratch):
    self.version, self.series = version, int(version.split('.')[0])
    self.ours, self.scratch = ours, scratch
    self.tree = abi_tree.Tree(root)
    self.errors, self.unchecked, self.notes, self.checked = [], {}, [], 0

  def error(self, where, text):
    self.errors.append('%s: driver %s: %s' % (where, self.version, text))

  def covered(self, note):
    """Whether the file something came from is there to compare with."""
    names = {os.path.basename(f) for f in self.tree.files} | {'nvstatuscodes.h'}
    return self.tree.has_sdk() or os.path.basename(note.origin) in names

  def skip(self, note):
    origin = re.sub(r'(/inc/(ctrl|class|alloc)/).*', r'\1', note.origin)
    self.unchecked[origin] = self.unchecked.get(origin, 0) + 1

  def theirs_has(self, name):
    return name in self.tree.records or name in self.tree.aliases

  def layout(self, name):
    name = self.tree.aliases.get(name, (name,))[0]
    return self.tree.records[name]

  def expected(self, name, note, present, what):
    """Whether `name` is to be compared; complains if its presence is not what the notes say."""
    if not self.covered(note):
      self.skip(note)
      return False
    wanted = note.in_series(self.series)
    if wanted and not present:
      self.error(note.where, '%s %s does not exist' % (what, name))
    elif present and not wanted:
      self.error(note.where, '%s %s exists, but trap/abi says "%s %d"' %
                 (what, name, *note.series))
    return wanted and present

  def run(self):
    self.where = {}  # key of a fact -> place in trap/abi
    theirs, ours = [], []
    self._records(theirs, ours)
    self._constants(theirs, ours)
    include = self.tree.include_flags()
    left = run_program(self.scratch, 'theirs.c', table_program(self.tree.includes(), theirs),
                       ['gcc', '-std=gnu11', '-w'] + include)
    names, tail = self._names()
    right = run_program(
        self.scratch, 'ours.cc',
        table_program(self.ours.includes() + 'using namespace phantora::abi;\n', ours, tail),
        self.ours.compiler() + [os.path.join(self.ours.directory, f)
                                for f in os.listdir(self.ours.directory) if f.endswith('.cc')])
    for key, value in left.items():
      where = self.where[key]
      mine = right.get(key)
      self.checked += 1
      if mine == value:
        continue
      # NVIDIA's negative constants are 32-bit values here.
      if mine is not None and key.startswith('constant') and int(value) >> 32 == 0xffffffff:
        if int(mine) == int(value) & 0xffffffff:
          continue
      self.error(where, '%s is %s, trap/abi has %s' % (key, value, mine))
    for key, (where, allowed) in names.items():
      self.checked += 1
      # A number may have had another name in another series.
      number = int(re.search(r'0x[0-9a-f]+', key).group(), 16)
      if right.get(key) not in allowed | self.ours.names.get(number, set()):
        self.error(where, '%s is %s, the look-up says %s' % (key, ' or '.join(sorted(allowed)),
                                                           right.get(key)))

  def _records(self, theirs, ours):
    aliases = select(self.ours.aliases, self.series)
    for name, mine in select(self.ours.records, self.series).items():
      if base_name(aliases.get(name, ''))[1]:  # became another structure's name
        continue
      note = self.ours.records[mine]
      if name in self.ours.records:  # which says when the structure was dropped
        note = Note(note.where, note.origin, self.ours.records[name].series)
      self.where[name] = self.where['size ' + name] = note.where
      if not self.expected(name, note, self.theirs_has(name), 'structure'):
        continue
      layout = self.layout(name)
      c_name = ('%s %s' % (layout.kind, name)) if layout.tag else name
      if layout.members or layout.size:
        theirs.append(('size %s' % name, 'sizeof(%s)' % c_name))
        ours.append(('size %s' % name, 'sizeof(%s)' % mine))
      fields = {path: member for path, _, member in abi_dwarf.flatten(layout)}
      mine_fields = {self._plain(path): (path, marker)
                     for path, marker in self.ours.members(mine).items()}
      for path, member in fields.items():
        marker = ''
        if abi_headers.is_pointer(member.type):
          marker = 'pointer'
        elif abi_headers.is_fd(member.name, member.type):
          marker = 'fd'
        if path not in mine_fields:
          self.error(note.where, '%s.%s%s is missing in trap/abi' %
                     (name, path, ' (a %s)' % marker if marker else ''))
          continue
        my_path, my_marker = mine_fields[path]
        if marker != my_marker:
          self.error(note.where, '%s.%s is %s, trap/abi treats it as %s' %
                     (name, path, marker or 'plain', my_marker or 'plain'))
        expressions = [('offset', 'offsetof(%s, %s)'), ('width', 'sizeof(((%s*)0)->%s)')]
        if isinstance(member.type, abi_dwarf.Array):
          expressions.append(('element', 'sizeof(((%s*)0)->%s' +
                              '[0]' * len(member.type.bounds) + ')'))
        if path.endswith('[0]') or '[0].' in path:  # the array of structures around it
          expressions += [('width of array %d' % i, 'sizeof(((%%s*)0)->%%.%ds)' % m.start())
                          for i, m in enumerate(re.finditer(r'(\[0\])+', path))]
        for what, expression in expressions:
          key = '%s %s.%s' % (what, name, path)
          self.where[key] = note.where
          theirs.append((key, expression % (c_name, path)))
          ours.append((key, expression % (mine, my_path)))
      for path in mine_fields:
        if path not in fields:
          self.error(note.where, '%s.%s does not exist' % (name, path))
    for name, mine in aliases.items():
      note = self.ours.aliases[mine][1]
      if name in self.where:
        continue
      self.where[name] = self.where['size ' + name] = note.where
      if not self.covered(note):
        self.skip(note)
      elif self.theirs_has(name):
        layout = self.layout(name)
        if not layout.tag or name in self.tree.aliases:
          theirs.append(('size %s' % name, 'sizeof(%s)' % name))
          ours.append(('size %s' % name, 'sizeof(%s)' % mine))

  @staticmethod
  def _plain(path):
    """Undoes the underscore that C++ keywords got."""
    return '.'.join(p[:-1] if p[:-1] in abi_headers.KEYWORDS and p.endswith('_') else p
                    for p in path.split('.'))

  def _constants(self, theirs, ours):
    status = self.tree.status_codes()
    chosen = select(self.ours.constants, self.series)
    listed = self.tree.listed_classes()
    for name, mine in chosen.items():
      note = self.ours.constants[mine]
      if name in self.ours.constants:  # which says when the constant was dropped
        note = Note(note.where, note.origin, self.ours.constants[name].series)
      macro = self.tree.macros.get(name) or self.tree.enumerators.get(name)
      ranged = re.fullmatch(r'(\w+)_(SHIFT|MASK)', name)
      if macro is not None and isinstance(macro.value, int) or name in status:
        present, expression = True, name
      elif name in listed:  # g_allclasses.h skips what a class header has defined
        present, expression = True, '0x%x' % listed[name]
      else:
        present, expression = False, ''
        bits = ranged and self.tree.macros.get(ranged.group(1))
        if bits and isinstance(bits.value, tuple):
          present = True
          expression = {'SHIFT': '(0 ? {0})',
                        'MASK': '((~0ull >> (63 - (1 ? {0}) + (0 ? {0}))) << (0 ? {0}))'}[
                            ranged.group(2)].format(ranged.group(1))
      partner = re.sub(r'_MASK(_V\d+)?$', r'_SHIFT\1', mine)
      if note.series is None and ranged and partner in self.ours.constants:
        # The remark about the series is on the _SHIFT line.
        note = Note(note.where, note.origin, self.ours.constants[partner].series)
      if note.origin == abi_headers.CLASS and not present:
        # A class of another series, or one that only g_allclasses.h, which the cache lacks, lists.
        self.skip(note if not self.tree.has_sdk() else
                  Note(note.where, 'classes that these headers do not list', None))
        continue
      if note.origin.endswith('nvstatuscodes.h') and not present:
        self.skip(Note(note.where, 'status codes of another series', None))
        continue
      self.where['constant ' + name] = note.where
      if self.expected(name, note, present, 'constant'):
        theirs.append(('constant %s' % name, expression))
        ours.append(('constant %s' % name, mine))
    for name in status:
      if name not in self.ours.constants:
        self.error('nv_status.h', 'status code %s is missing in trap/abi' % name)
    for name in self.tree.class_numbers():
      if name not in self.ours.constants:
        self.error('rm_classes.h', 'class %s is missing in trap/abi' % name)
    for name, macro in self.tree.macros.items():
      header = next((h for h in abi_headers.HEADERS if h.wants_macro(name, macro)), None)
      if header is None or name in chosen or name + '_MASK' in chosen:
        continue
      if re.match(r'NV_ESC_|UVM_', name) and isinstance(macro.value, int):
        self.error(header.name, 'number %s is missing in trap/abi' % name)
      elif isinstance(macro.value, int):
        self.notes.append('constant %s is not in trap/abi' % name)
    for name, record in self.tree.records.items():
      header = next((h for h in abi_headers.HEADERS if h.wants_record(record)), None)
      if header and name not in self.where:
        self.error(header.name, 'structure %s is missing in trap/abi' % name)

  def _names(self):
    """What the look-up functions must return: key -> (where, allowed names), and C++ that asks."""
    wanted, tail = {}, []

    def ask(function, number, allowed):
      key = '%s(0x%x)' % (function, number)
      wanted[key] = ('trap/abi', allowed)
      tail.append('  printf("%s = %%s\\n", phantora::abi::%s(0x%x));\n' % (key, function, number))

    for name, value in self.tree.status_codes().items():
      ask('NvStatusName', value, {name} | RENAMED.get(value, set()))
    numbers = {}
    for name, number in self.tree.class_numbers().items():
      numbers.setdefault(number, set()).add(name)
    for name, macro in self.tree.macros.items():  # nvos.h has names for some, too
      if macro.file.endswith('/nvos.h') and name.startswith('NV01_') and macro.value in numbers:
        numbers[macro.value].add(name)
    for number, names in numbers.items():
      ask('RmClassName', number, names)
    for number, name in self.tree.control_names().items():
      ask('RmControlName', number, {name} | RENAMED.get(number, set()))
    for name, macro in self.tree.macros.items():
      if name.startswith('NV_ESC_') and macro.file.endswith(
          ('nv_escape.h', 'nv-ioctl-numbers.h', 'nv-ioctl-numa.h')):
        ask('EscapeName', macro.value, {name} | RENAMED.get(macro.value, set()))
      if name.startswith('UVM_') and abi_tree.is_uvm_ioctl(self.tree, name):
        ask('UvmIoctlName', macro.value, {name})
    return wanted, ''.join(tail)


# Numbers that another status, ioctl or control got later: the look-ups know the newest name.
RENAMED = {
    0x5f: {'NV_ESC_RM_LOCKLESS_DIAGNOSTIC'},
    0x81: {'NV_ERR_NVLINK_FABRIC_NOT_READY'},
    0x82: {'NV_ERR_NVLINK_FABRIC_FAILURE'},
    0x107: {'NV0000_CTRL_SYSTEM_GET_VRR_COOKIE_PRESENT'},
    0x285: {'NV0000_CTRL_CMD_PUSH_UCODE_IMAGE'},
    0x502: {'NV0000_CTRL_CMD_GET_SYSTEM_EVENT_DATA'},
    0x730108: {'NV0073_CTRL_CMD_SYSTEM_GET_CONNECT_STATE'},
    0x730109: {'NV0073_CTRL_CMD_SYSTEM_GET_HOTPLUG_CONFIG'},
    0x73010a: {'NV0073_CTRL_CMD_SYSTEM_GET_HOTPLUG_STATE'},
    0x730120: {'NV0073_CTRL_CMD_SYSTEM_EXECUTE_ACPI_METHOD'},
    0x73015a: {'NV0073_CTRL_CMD_SYSTEM_SET_DISPLAY_PERF_LIMIT'},
    0x731174: {'NV0073_CTRL_CMD_DFP_ENTER_DISPLAY_POWER_GATING'},
    0x208001b2: {'NV2080_CTRL_CMD_GPU_GET_RECOVERY_ACTION'},
    0x208001e3: {'NV2080_CTRL_CMD_INTERNAL_CONTROL_GSP_TRACE'},
    0x20800a21: {'NV2080_CTRL_CMD_INTERNAL_NVLINK_ENABLE_NVLINK_PEER'},
    0x20800a24: {'NV2080_CTRL_CMD_INTERNAL_NVLINK_CORE_CALLBACK'},
    0x20800a25: {'NV2080_CTRL_CMD_INTERNAL_NVLINK_UPDATE_REMOTE_LOCAL_SID'},
    0x20800a29: {'NV2080_CTRL_CMD_INTERNAL_NVLINK_GET_ALI_ENABLED'},
    0x20800a42: {'NV2080_CTRL_CMD_INTERNAL_NVLINK_UPDATE_HSHUB_MUX'},
    0x20800a46: {'NV2080_CTRL_CMD_INTERNAL_GPU_CHECK_CTS_ID_VALID'},
    0x20800a64: {'NV2080_CTRL_CMD_INTERNAL_NVLINK_PROGRAM_BUFFERREADY'},
    0x20800a76: {'NV2080_CTRL_CMD_INTERNAL_DISPLAY_PRE_UNIX_CONSOLE'},
    0x20800a77: {'NV2080_CTRL_CMD_INTERNAL_DISPLAY_POST_UNIX_CONSOLE'},
    0x20800a7a: {'NV2080_CTRL_CMD_INTERNAL_GPU_GET_HFRP_INFO'},
    0x20800a7c: {'NV2080_CTRL_CMD_INTERNAL_SEND_CMC_UMD_API_OP'},
    0x20800a89: {'NV2080_CTRL_CMD_INTERNAL_SEND_CMC_LIBOS_BUFFER_INFO'},
    0x20800ac3: {'NV2080_CTRL_CMD_INTERNAL_FIFO_TOGGLE_ACTIVE_CHANNEL_SCHEDULING'},
    0x20800ada: {'NV2080_CTRL_INTERNAL_SPDM_RETRIEVE_TRANSCRIPT'},
    0x2080a7d7: {'NV2080_CTRL_CMD_INTERNAL_GCX_ENTRY_PREREQUISITE'},
    0x208f0516: {'NV208F_CTRL_CMD_FB_INJECT_LRC_ECC_ERROR'},
    0xa0810109: {'NVA081_CTRL_CMD_VGPU_CONFIG_UPDATE_PGPU_INFO'},
    0xa081011b: {'NVA081_CTRL_CMD_VGPU_CONFIG_UPDATE_PLACEMENT_INFO'},
}


def find_trees():
  """version -> tree root, for the supported series; exits with advice if any has none."""
  override = os.environ.get('PHANTORA_ABI_TREES')
  if override:
    drivers = override
  else:
    home = os.environ.get('HOME') or pwd.getpwuid(os.getuid()).pw_dir
    cache = os.environ.get('PHANTORA_CACHE') or os.path.join(home, '.cache', 'phantora')
    drivers = os.path.join(cache, 'drivers')
  trees, bare, others = {}, [], []
  for version in sorted(os.listdir(drivers)) if os.path.isdir(drivers) else []:
    if not re.fullmatch(r'\d+(\.\d+)+', version):
      continue
    if int(version.split('.')[0]) not in SERIES:
      others.append(version)
      continue
    for root in (os.path.join(drivers, version, 'src'), os.path.join(drivers, version)):
      if os.path.isdir(os.path.join(root, 'kernel-open')):
        trees[version] = root
        break
    else:
      (others if int(version.split('.')[0]) in OPTIONAL_SERIES else bare).append(version)
  for version in others:
    print('driver %s: no headers, or of a series that trap/abi does not describe; not compared' %
          version)
  found = {int(v.split('.')[0]) for v in trees} | OPTIONAL_SERIES
  missing = [str(s) for s in SERIES if s not in found]
  if missing or bare:
    print('No driver headers in %s for %s.\nRun tools/setup.sh, which puts them there.' %
          (drivers, ', '.join(bare + ['series ' + m for m in missing])), file=sys.stderr)
    raise SystemExit(1)
  return trees


def main():
  trees = find_trees()
  failed = False
  with tempfile.TemporaryDirectory() as scratch:
    ours = Ours(scratch)
    for version, root in trees.items():
      comparison = Comparison(version, root, ours, scratch)
      comparison.run()
      print('driver %s: %d facts compared, %d differences' %
            (version, comparison.checked, len(comparison.errors)))
      if not comparison.tree.has_sdk():
        print('  NOT CHECKED, because the SDK headers (src/) are not there:')
      for origin, count in sorted(comparison.unchecked.items()):
        print('  not compared: %5d names of %s' % (count, origin))
      for note in comparison.notes[:20]:
        print('  note: ' + note)
      if len(comparison.notes) > 20:
        print('  note: ... and %d more' % (len(comparison.notes) - 20))
      for error in comparison.errors[:MAX_REPORTED]:
        print('  ' + error)
      failed = failed or bool(comparison.errors)
  print('FAIL' if failed else 'PASS')
  return 1 if failed else 0


if __name__ == '__main__':
  sys.exit(main())
