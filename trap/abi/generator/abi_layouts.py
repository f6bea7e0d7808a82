#!/usr/bin/env python3
"""Generates trap/abi/generated from the headers that NVIDIA publishes for its kernel driver.

The supervisor speaks the driver's ioctl ABI, so it needs the exact byte layout of every parameter
structure and the exact value of every number libcuda and NVML pass.  Copying them by hand would be
an endless source of mistakes.  This script asks the compiler instead:

  * One C file that includes all SDK headers of a driver tree is compiled with debug information;
    the layouts are read from the DWARF that gcc writes (through binutils' `readelf`).
  * The same file is preprocessed with -dD; every object-like macro that expands to an integer (or
    to a `high:low` bit range) becomes a constant.

Usage:
  abi_layouts.py generate --out trap/abi/generated TREE_535 TREE_550
      Writes the headers.  The trees are checkouts of NVIDIA/open-gpu-kernel-modules (or of the
      same files laid out in the same way), oldest driver first.
  abi_layouts.py diff TREE TREE...
      Prints every structure and constant of the generated headers that differs among the trees.
  abi_layouts.py dump TREE NAME...
      Prints the layouts of the named structures and the values of the named macros.

Where the trees disagree about a structure or a number, the oldest one has the plain name and the
newer one gets a suffix (_V550).  test/abi_parity_test.py, which uses this module, compares the
committed headers with the driver's.
"""

import argparse
import dataclasses
import glob
import os
import re
import subprocess
import sys
import tempfile

SDK = 'src/common/sdk/nvidia/inc'
UNIX = 'src/nvidia/arch/nvalloc/unix/include'
UVM = 'kernel-open/nvidia-uvm'
COMMON = 'kernel-open/common/inc'
# In this order: the SDK's copies of shared headers are preferred over those of kernel-open.
INCLUDE_DIRS = (SDK, 'src/common/inc', UNIX, COMMON, UVM, 'src/nvidia/generated')

# ---------------------------------------------------------------------------------------------
# Layouts


@dataclasses.dataclass(frozen=True)
class Scalar:
  """A number.  Pointers and enums are numbers too; `pointer` remembers which was which."""
  ctype: str
  size: int
  pointer: bool = False


@dataclasses.dataclass(frozen=True)
class Array:
  element: object
  bounds: tuple

  @property
  def size(self):
    n = self.element.size
    for bound in self.bounds:
      n *= bound
    return n


@dataclasses.dataclass
class Member:
  name: str  # None for an anonymous struct or union
  offset: int
  type: object
  bits: tuple = None  # (first bit, number of bits) of a bit field, relative to the record


@dataclasses.dataclass
class Record:
  kind: str  # 'struct' or 'union'
  size: int
  name: str = None  # the typedef's name, else the tag; None for a nested anonymous one
  file: str = None  # path in the driver tree
  line: int = 0
  tag: bool = False  # `name` is a tag: C needs the keyword before it
  members: list = dataclasses.field(default_factory=list)

  def shape(self, names=True):
    """A comparable description of the whole layout, nested records included."""
    return (self.kind, self.size,
            tuple((m.name if names else None, m.offset, m.bits, shape(m.type, names))
                  for m in self.members))


def shape(type_, names=True):
  if isinstance(type_, Record):
    return type_.shape(names)
  if isinstance(type_, Array):
    return ('array', type_.bounds, shape(type_.element, names))
  return type_


def flatten(record, base=0, prefix=''):
  """Yields (path, offset, type) of every scalar and array of scalars, descending into records.

  Arrays of records are entered once (element 0).
  """
  for m in record.members:
    path = prefix + (m.name or '')
    type_ = m.type
    while isinstance(type_, Array) and isinstance(type_.element, Record):
      path += '[0]' * len(type_.bounds)
      type_ = type_.element
    if isinstance(type_, Record):
      yield from flatten(type_, base + m.offset, path + '.' if m.name else prefix)
    else:
      yield path, base + m.offset, m


class Dwarf:
  """The types of one object file, from `readelf --debug-dump=info`."""

  _DIE = re.compile(r' <(\d+)><([0-9a-f]+)>: Abbrev Number: \d+(?: \((\w+)\))?')
  _ATTRIBUTE = re.compile(r'    <[0-9a-f]+> +(DW_AT_\w+) *: ?(.*)')

  def __init__(self, path, relative):
    """`relative` maps an absolute file name to the one reported in Record.file."""
    self._relative = relative
    self._dies = {}
    self._files = self._read_files(path)
    stack = []
    text = subprocess.run(['readelf', '--debug-dump=info', path], check=True,
                          capture_output=True, text=True).stdout
    die = None
    for line in text.splitlines():
      m = self._DIE.match(line)
      if m:
        if not m.group(3):
          die = None
          continue
        depth = int(m.group(1))
        die = {'id': int(m.group(2), 16), 'tag': m.group(3)[7:], 'children': []}
        self._dies[die['id']] = die
        del stack[depth:]
        if stack:
          stack[-1]['children'].append(die)
          die['parent'] = stack[-1]
        stack.append(die)
        continue
      m = self._ATTRIBUTE.match(line)
      if m and die is not None:
        key, value = m.group(1)[6:], m.group(2).strip()
        if key == 'name':
          value = re.sub(r'^\(indirect.*?\): ', '', value)
        die[key] = value
    self._records = {}
    self._name_records()

  def _read_files(self, path):
    text = subprocess.run(['readelf', '--debug-dump=rawline', path], check=True,
                          capture_output=True, text=True).stdout
    directories, files, table = {}, {}, None
    for line in text.splitlines():
      if 'The Directory Table' in line:
        table = 'd'
      elif 'The File Name Table' in line:
        table = 'f'
      elif table == 'd' and (m := re.match(r'\s+(\d+)\s+(/?\S+)$', line)):
        directories[int(m.group(1))] = m.group(2)
      elif table == 'f' and (m := re.match(r'\s+(\d+)\s+(\d+)\s+\d+\s+\d+\s+(\S+)$', line)):
        directory = directories.get(int(m.group(2)), '')
        files[int(m.group(1))] = os.path.join(directory, m.group(3))
    return files

  def _ref(self, die):
    if 'type' not in die:
      return None
    return self._dies[int(die['type'].strip('<>').replace('0x', ''), 16)]

  def _name_records(self):
    """Gives every record its typedef's name and finds typedefs that merely rename a record."""
    self.names = {}  # name -> Record
    self.aliases = {}  # name -> (canonical name, file, line)
    self.enumerators = {}  # name -> (value, file, line)
    self._names = {}
    typedefs = []
    for die in self._dies.values():
      if die['tag'] == 'enumeration_type':
        for child in die['children']:
          value = int(child['const_value'].split()[-1], 0)
          self.enumerators[child['name']] = (value, self._file(die), int(die['decl_line'], 0))
      if die['tag'] == 'typedef':
        target = self._ref(die)
        if target is None:
          continue
        chained = target['tag'] in ('typedef', 'const_type', 'volatile_type')
        while target is not None and target['tag'] in ('typedef', 'const_type', 'volatile_type'):
          target = self._ref(target)
        if target is None or target['tag'] not in ('structure_type', 'union_type'):
          continue
        typedefs.append((chained, die, target))
    for chained, die, target in typedefs:
      if not chained and target['id'] not in self._names:
        self._names[target['id']] = (die['name'], die)
    for die in self._dies.values():
      if die['tag'] in ('structure_type', 'union_type') and 'declaration' not in die:
        if die['id'] not in self._names and 'name' in die:
          self._names[die['id']] = (die['name'], die)
        if die['id'] in self._names:
          self.names[self._names[die['id']][0]] = self._record(die)
    for _, die, target in typedefs:
      if target['id'] in self._names and 'declaration' not in target:
        canonical = self._names[target['id']][0]
        if canonical != die['name']:
          self.aliases[die['name']] = (canonical, self._file(die), int(die['decl_line'], 0))

  def _file(self, die):
    return self._relative(self._files.get(int(die.get('decl_file', '0').split()[0]), ''))

  def _record(self, die):
    if die['id'] in self._records:
      return self._records[die['id']]
    record = Record(die['tag'].split('_')[0].replace('structure', 'struct'),
                    int(die['byte_size'], 0))
    self._records[die['id']] = record
    if die['id'] in self._names:
      record.name, where = self._names[die['id']]
      record.file, record.line = self._file(where), int(where['decl_line'], 0)
      record.tag = where is die
    for child in die['children']:
      if child['tag'] != 'member':
        continue
      offset = int(child.get('data_member_location', '0'), 0)
      bits = None
      if 'bit_size' in child:
        size = int(child['bit_size'], 0)
        if 'data_bit_offset' in child:
          first = int(child['data_bit_offset'], 0)
        else:  # DWARF 3: counted from the storage unit's most significant bit
          unit = int(child['byte_size'], 0) * 8
          first = offset * 8 + unit - int(child['bit_offset'], 0) - size
        bits = (first, size)
        offset = first // 8
      record.members.append(Member(child.get('name'), offset, self._type(self._ref(child)), bits))
    return record

  def _type(self, die):
    while die is not None and die['tag'] in ('typedef', 'const_type', 'volatile_type'):
      die = self._ref(die)
    if die is None:
      return Scalar('void', 1)
    tag = die['tag']
    if tag in ('structure_type', 'union_type'):
      return self._record(die)
    if tag == 'pointer_type':
      return Scalar('uint64_t', 8, pointer=True)
    if tag == 'enumeration_type':
      size = int(die['byte_size'], 0)
      return Scalar('uint%d_t' % (size * 8), size)
    if tag == 'array_type':
      bounds = []
      for child in die['children']:
        if 'upper_bound' in child:
          bounds.append(int(child['upper_bound'], 0) + 1)
        else:
          bounds.append(int(child.get('count', '0'), 0))
      element = self._type(self._ref(die))
      if isinstance(element, Array):
        return Array(element.element, tuple(bounds) + element.bounds)
      return Array(element, tuple(bounds))
    if tag == 'base_type':
      size, encoding = int(die['byte_size'], 0), int(die['encoding'].split()[0])
      if encoding == 4:
        return Scalar('float' if size == 4 else 'double', size)
      if encoding == 6 and die['name'] == 'char':
        return Scalar('char', 1)
      if encoding in (5, 6):
        return Scalar('int%d_t' % (size * 8), size)
      return Scalar('uint%d_t' % (size * 8), size)
    return Scalar('void', 1)


# ---------------------------------------------------------------------------------------------
# Macros


@dataclasses.dataclass(frozen=True)
class Macro:
  value: object  # an int, or (high, low) for a bit range
  file: str
  line: int


def evaluate(text):
  """The value of a preprocessed macro: an int, (high, low), or None for anything else."""
  text = text.strip()
  m = re.fullmatch(r'\(?(.+?)\)?\s*:\s*\(?(.+?)\)?', text)
  if m and '?' not in text and '"' not in text:
    high, low = evaluate(m.group(1)), evaluate(m.group(2))
    if isinstance(high, int) and isinstance(low, int) and 63 >= high >= low >= 0:
      return (high, low)
    return None
  text = re.sub(r"'(.)'", lambda q: str(ord(q.group(1))), text)
  text = re.sub(r'\(\s*(?:Nv[USV]\d+|NvBool|NV_STATUS|NvHandle|unsigned int|unsigned|int)\s*\)', '',
                text)
  text = re.sub(r'\b(0[xX][0-9a-fA-F]+|\d+)[uUlL]*\b', r'\1', text)
  if not text or re.search(r'[A-Za-z_]', re.sub(r'\b0[xX][0-9a-fA-F]+\b', '', text)):
    return None
  text = re.sub(r'\b0+(\d)', r'\1', text).replace('/', '//')
  try:
    value = eval(text, {'__builtins__': {}})  # only digits and operators are left
  except (SyntaxError, TypeError, NameError, ZeroDivisionError, ValueError):
    return None
  return value if isinstance(value, int) and not isinstance(value, bool) else None


# ---------------------------------------------------------------------------------------------
# Driver trees


class Tree:
  """A driver source tree, and what the compiler says about its headers."""

  def __init__(self, root, headers=None):
    self.root = os.path.abspath(root)
    self.headers = headers or self.default_headers()
    with tempfile.TemporaryDirectory() as scratch:
      self._probe(scratch)

  def _path(self, directory, pattern):
    base = os.path.join(self.root, directory)
    return sorted(os.path.relpath(p, base)
                  for p in glob.glob(os.path.join(base, pattern), recursive=True))

  def has_sdk(self):
    return os.path.exists(os.path.join(self.root, SDK, 'nvos.h'))

  def default_headers(self):
    headers = ['nvtypes.h', 'nvstatus.h', 'nvlimits.h', 'nvgputypes.h']
    if self.has_sdk():
      headers += ['rs_access.h', 'nvos.h']
    headers += ['nv-ioctl.h', 'nv-ioctl-numa.h', 'nv-ioctl-numbers.h']
    if self.has_sdk():
      headers += ['nv_escape.h', 'nv-unix-nvos-params-wrappers.h']
      headers += self._path(SDK, 'alloc/*.h')
      headers += self._path(SDK, 'class/cl*.h')
      if os.path.exists(os.path.join(self.root, 'src/nvidia/generated/g_allclasses.h')):
        headers.append('g_allclasses.h')
      headers += self._path(SDK, 'ctrl/**/*.h')
    return headers + ['uvm_linux_ioctl.h', 'uvm_ioctl.h']

  def relative(self, path):
    path = os.path.normpath(path)
    if path.startswith(self.root + os.sep):
      return os.path.relpath(path, self.root)
    return ''

  def include_flags(self):
    return ['-I' + os.path.join(self.root, d) for d in INCLUDE_DIRS]

  def includes(self):
    return ''.join('#include <%s>\n' % h for h in self.headers)

  def _probe(self, scratch):
    source, binary = os.path.join(scratch, 'probe.c'), os.path.join(scratch, 'probe.o')
    with open(source, 'w') as f:
      f.write(self.includes())
    gcc = ['gcc', '-std=gnu11', '-w'] + self.include_flags()
    subprocess.run(gcc + ['-g', '-gdwarf-4', '-fno-eliminate-unused-debug-types', '-c', source,
                          '-o', binary], check=True)
    dwarf = Dwarf(binary, self.relative)
    self.records, self.aliases = dwarf.names, dwarf.aliases
    self.enumerators = {n: Macro(*v) for n, v in dwarf.enumerators.items()}
    self._read_macros(gcc, source)

  def _read_macros(self, gcc, source):
    text = subprocess.run(gcc + ['-E', '-dD', source], check=True, capture_output=True,
                          text=True).stdout
    where, name_file, line_number = {}, '', 0
    self.files = set()  # what was included, relative to the root
    for line in text.splitlines():
      m = re.match(r'# (\d+) "([^"]*)"', line)
      if m:
        line_number, name_file = int(m.group(1)), self.relative(m.group(2))
        self.files.add(name_file)
        continue
      m = re.match(r'#define (\w+)(\()?', line)
      if m and not m.group(2) and name_file:
        where.setdefault(m.group(1), (name_file, line_number))
      line_number += 1
    names = sorted(where)
    probe = source + '.macros.c'
    with open(probe, 'w') as f:
      f.write(self.includes())
      f.writelines('@@ "%s" %s\n' % (n, n) for n in names)
    text = subprocess.run(gcc + ['-E', '-P', probe], check=True, capture_output=True,
                          text=True).stdout
    self.macros = {}
    for line in text.splitlines():
      m = re.match(r'@@ "(\w+)" ?(.*)', line)
      if not m:
        continue
      value = evaluate(m.group(2))
      if value is not None:
        self.macros[m.group(1)] = Macro(value, *where[m.group(1)])

  def texts(self, directory, pattern):
    for name in self._path(directory, pattern):
      with open(os.path.join(self.root, directory, name), errors='replace') as f:
        yield name, f.read()

  def control_names(self):
    """Control number -> name.  FINN, NVIDIA's generator, leaves a comment on every control."""
    names = {}
    finn = re.compile(r'^#define\s+(\w+)\s+\(?(0x[0-9a-fA-F]+)U?\)?\s*/\* finn: Evaluated from '
                      r'"\([^"]*<< 8\) \|', re.M)
    for _, text in self.texts(SDK, 'ctrl/**/*.h'):
      for m in finn.finditer(text):
        names.setdefault(int(m.group(2), 16), m.group(1))
    for name, macro in self.macros.items():  # those that were written by hand
      m = re.match(r'NV([0-9A-F]{4})_CTRL_CMD_', name)
      if m and isinstance(macro.value, int) and macro.value >> 16 == int(m.group(1), 16) > 0:
        if macro.file.startswith(SDK + '/ctrl/'):
          names.setdefault(macro.value, name)
    return names

  def control_params(self):
    """Control name -> parameter structure, from FINN's comments."""
    params = {}
    finn = re.compile(r'^#define\s+(\w+)\s+\(?0x[0-9a-fA-F]+U?\)?\s*/\* finn: Evaluated from '
                      r'"\([^"]*<< 8\) \| (\w+)_MESSAGE_ID" \*/', re.M)
    for _, text in self.texts(SDK, 'ctrl/**/*.h'):
      for m in finn.finditer(text):
        params[m.group(1)] = m.group(2)
    return params

  def class_numbers(self):
    """Name -> number: the class headers' and, where present, g_allclasses.h's."""
    classes = dict(self.listed_classes())
    for name, macro in self.macros.items():
      m = re.fullmatch(r'cl([0-9a-f]{4})\w*\.h', os.path.basename(macro.file))
      if not m or not macro.file.startswith(SDK + '/class/') or '_MESSAGE_ID' in name:
        continue
      # A class header names its class, then its methods and notifiers (NVxxxx_...), whose numbers
      # are small.
      number = int(m.group(1), 16)
      if macro.value == number and (number > 0x100 or not re.match(r'NV[0-9A-F]{4}_', name)):
        classes.setdefault(name, number)
    return classes

  def listed_classes(self):
    """Those of g_allclasses.h, the driver's own list of what it implements."""
    return {m.group(1): int(m.group(2), 16)
            for _, text in self.texts('src/nvidia/generated', 'g_allclasses.h')
            for m in re.finditer(r'^#define (\w+) +\((0x[0-9a-f]+)\)', text, re.M)}

  def status_codes(self):
    """Name -> (value, text)."""
    codes = {}
    for _, text in self.texts(SDK if self.has_sdk() else COMMON, 'nvstatuscodes.h'):
      for m in re.finditer(r'^NV_STATUS_CODE\((\w+),\s*(0x[0-9a-fA-F]+)', text, re.M):
        codes[m.group(1)] = int(m.group(2), 16)
    return codes


# ---------------------------------------------------------------------------------------------
# What is generated

CTRL = SDK + '/ctrl/'
CLASS = SDK + '/class/'

# Display, gsync, I2C, vGPU hosting, and the driver's messages to its own firmware: nothing that
# CUDA or NVML ask for, and a third of the SDK.
SKIPPED_CONTROLS = re.compile(
    r'ctrl(0073|5070|c370|c372|30f1|402c|5080|a080|a081|a084|a0bc|a0bd|208f|9010|9072|90ec|00fe'
    r'|2080(internal|vgpumgrinternal|spdm|gpio|illum|boardobj|ucodefuzzer|acr|lpwr|i2c|spi)'
    r'|0000(vgpu|gsync))')

# Classes whose header carries an allocation parameter structure, a notifier or an event number
# that matters here.  The others (engines) contribute their class number only.
CLASS_HEADERS = re.compile(
    r'cl(0000|0001|0002|0004|0005|000f|0030|003e|003f|0040|0041|0050|0060|0070|0071|0080|0090|00c1'
    r'|00c2|00c3|00da|00db|00de|00e0|00f1|00f2|00f3|00f8|00f9|00fb|00fd|00fe|2080|2081|2082|503b'
    r'|503c|50a0|83de|844c|84a0|85b5|902d|9067|9074|9096|90cc|90cd|90e6|90e7|90f1|a06c|b069|b2cc'
    r'|b0cc|b0b5sw|c0b5sw|c1b5sw|c3b5sw|c5b5sw|c6b5sw|c361|c365|c369|c461|c561|c637|c638|c639|c640'
    r'|c661|c763|c770_|cb33|cba2|cbca|906f|a06f|a16f|a26f|b06f|c06f|c36f|c46f|c56f|c86f)'
    r'(_notification|fecs|types|sw)?\.h')
# From these class headers only structures are taken, not the numbers (hundreds of method offsets).
METHOD_HEADERS = re.compile(r'cl(902d|506f|c365|cba2)\.h')
CHANNEL_NUMBERS = re.compile(r'NV[0-9A-F]{2}6F_(NOTIFIERS|NOTIFICATION)')
CHANNEL_HEADERS = re.compile(r'cl(906f|a06f|a16f|a26f|b06f|c06f|c36f|c46f|c56f|c86f)\.h')


class Header:
  """One generated header: which files of the driver tree it covers, and in which order."""

  def __init__(self, name, title, includes, files):
    self.name, self.title, self.includes, self.files = name, title, includes, files

  def order(self, path):
    for i, pattern in enumerate(self.files):
      if re.fullmatch(pattern, path):
        return i
    return None

  def wants_macro(self, name, macro):
    base = os.path.basename(macro.file)
    if self.order(macro.file) is None:
      return False
    if re.search(r'_MESSAGE_ID$|_INTERFACE_ID$|^FINN_|_H_?$', name) or '__' == name[:2]:
      return False
    if macro.file.startswith(CTRL):
      return not SKIPPED_CONTROLS.search(macro.file)
    if macro.file.startswith(CLASS):
      if CHANNEL_HEADERS.fullmatch(base):
        return bool(CHANNEL_NUMBERS.match(name))
      return bool(CLASS_HEADERS.fullmatch(base)) and not METHOD_HEADERS.fullmatch(base)
    return True

  def wants_record(self, record):
    if self.order(record.file or '') is None:
      return False
    base = os.path.basename(record.file)
    if record.file.startswith(CTRL):
      return not SKIPPED_CONTROLS.search(record.file)
    if record.file.startswith(CLASS):
      return bool(CLASS_HEADERS.fullmatch(base)) and base != 'cl902d.h'
    return True


HEADERS = (
    Header('escapes.h',
           'The ioctls of /dev/nvidiactl and /dev/nvidia<N>, and the structures of nvos.h.', [],
           [re.escape(SDK + '/nvlimits.h'), re.escape(SDK + '/nvgputypes.h'),
            re.escape(SDK + '/rs_access.h'), re.escape(SDK + '/nvos.h'),
            '.*/nv-ioctl-numbers.h', '.*/nv_escape.h', '.*/nv-ioctl-numa.h', '.*/nv-ioctl.h',
            '.*/nv-unix-nvos-params-wrappers.h']),
    Header('rm_classes.h',
           'Resource manager classes and the parameters of their allocation (NV_ESC_RM_ALLOC).',
           ['trap/abi/generated/escapes.h'], [SDK + '/alloc/.*', SDK + '/class/.*']),
    Header('rm_controls.h', 'Resource manager controls (NV_ESC_RM_CONTROL).',
           ['trap/abi/generated/rm_classes.h'], [CTRL + '.*']),
    Header('uvm_ioctl.h', 'The ioctls of /dev/nvidia-uvm.', [],
           ['src/common/inc/nvCpuUuid.h', UVM + '/uvm_types.h', UVM + '/uvm_linux_ioctl.h',
            UVM + '/uvm_ioctl.h']),
)

KEYWORDS = {'class', 'private', 'public', 'delete', 'new', 'operator', 'template', 'this',
            'virtual', 'default', 'export', 'and', 'or', 'not', 'xor'}
PAD = 'abi_pad'
FD = re.compile(r'(^|_)fd$|[a-z]Fd$')


def is_pointer(type_):
  """Members that carry addresses of the calling process."""
  element = type_.element if isinstance(type_, Array) else type_
  return isinstance(element, Scalar) and element.pointer


def is_fd(name, type_):
  """Members that carry a file descriptor of the calling process."""
  return bool(name and FD.search(name)) and isinstance(type_, Scalar) and type_.size == 4


def version_suffix(tree):
  """_V550 for a tree of driver 550.x (from the tree's directory or its version.mk)."""
  return '_V' + driver_version(tree).split('.')[0]


def driver_version(tree):
  path = os.path.join(tree.root, 'version.mk')
  if os.path.exists(path):
    with open(path) as f:
      if m := re.search(r'NVIDIA_VERSION\s*=\s*(\S+)', f.read()):
        return m.group(1)
  for part in reversed(tree.root.split(os.sep)):
    if re.fullmatch(r'\d+(\.\d+)+', part):
      return part
  raise SystemExit('cannot tell the driver version of ' + tree.root)


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


class Generator:
  """Writes the headers for trees[0] (plain names) and the newer trees (suffixed variants)."""

  def __init__(self, trees):
    self.trees = trees
    self.suffixes = [''] + [version_suffix(t) for t in trees[1:]]
    self.emitted = set()  # C++ names
    self.macro_names = set()
    self.lines = []

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
    if i and name == record.name:
      self.lines.append('// since %s' % self.suffixes[i][2:])
    elif i:
      older = next(t.records[record.name] for t in reversed(self.trees[:i])
                   if record.name in t.records)
      self.lines.append('// %s: %s' % (self.suffixes[i][2:], describe_difference(older, record)))
    elif any(record.name not in t.records for t in self.trees):
      self.lines.append('// only %s' % driver_version(self.trees[0]).split('.')[0])
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

  def emit_alias(self, name, i):
    target, _, _ = self.trees[i].aliases[name]
    record = self.trees[i].records.get(target)
    if record is None:
      return
    cpp_target = self.cpp_name(target, i)
    cpp = name
    if i and name in self.trees[0].aliases:
      if cpp_target == self.cpp_name(self.trees[0].aliases[name][0], 0):
        return
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
            missing = any(name not in t.macros and name not in t.enumerators for t in self.trees)
            comment = ('since ' + self.suffixes[i][2:]) if i else (
                'only ' + driver_version(tree).split('.')[0] if missing else '')
            self.emit_constant(name, macro.value, comment)
          else:
            self.emit_constant(name, macro.value, suffix=self.suffixes[i])
          previous = macro.value
      elif kind == 'record':
        for i, tree in enumerate(self.trees):
          if name in tree.records:
            self.emit_record(tree.records[name], i)
      else:
        for i, tree in enumerate(self.trees):
          if name in tree.aliases:
            self.emit_alias(name, i)
    body = '\n'.join(self.lines)
    uses = ['#include <cstddef>', '#include <cstdint>', '']
    uses += ['#include "%s"' % h for h in header.includes]
    return '\n'.join(
        ['// ' + header.title, '//', *GENERATED, '#ifndef ' + guard, '#define ' + guard, '', *uses,
         '', 'namespace phantora::abi {', extra_top, body, extra_bottom, '',
         '}  // namespace phantora::abi', '', '#endif  // ' + guard, ''])


GENERATED = (
    '// Generated by trap/abi/generator/abi_layouts.py from the driver\'s published headers; do not edit.',
    "// Facts only: NVIDIA's names, numbers and byte layouts.  The plain name is the layout of the",
    '// oldest supported driver (535); a name with the suffix _V550 is what 550 changed.  A range',
    '// of bits became NAME_SHIFT and NAME_MASK (the mask in place).  abi_pad<N> is padding.',
    '// Members marked `pointer` or `fd` are addresses or descriptors of the calling process.',
)


def lookup_source(header, function, what, entries, parameter='value'):
  """A .cc file with a sorted table and a binary search."""
  rows = ''.join('    {0x%x, "%s"},\n' % (v, n) for v, n in sorted(entries.items()))
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


def generate(trees, out):
  generator = Generator(trees)
  written = []

  def write(name, text):
    path = os.path.join(out, name)
    with open(path, 'w') as f:
      f.write(text)
    clang_format(path)
    written.append(path)

  status = {}
  for tree in trees:
    status.update(tree.status_codes())
  rows = '\n'.join('inline constexpr uint32_t %s = 0x%x;' % (n, v)
                   for n, v in sorted(status.items(), key=lambda x: (x[1], x[0])))
  write('nv_status.h', small_header(
      'nv_status.h', 'Status codes of the resource manager.',
      '\n// From %s/nvstatuscodes.h\n\n%s\n%s' % (SDK, rows, declaration(
          'NvStatusName', 'status', 'The name of a status code, or nullptr if it has none.'))))
  write('nv_status.cc', lookup_source('trap/abi/generated/nv_status.h', 'NvStatusName',
                                      'Names of the status codes.',
                                      {v: n for n, v in status.items()}, 'status'))
  generator.emitted.update(status)

  escapes, uvm = {}, {}
  for tree in trees:
    for name, macro in tree.macros.items():
      if name.startswith('NV_ESC_') and os.path.basename(macro.file) in (
          'nv_escape.h', 'nv-ioctl-numbers.h', 'nv-ioctl-numa.h'):
        escapes[macro.value] = name
      if name.startswith('UVM_') and is_uvm_ioctl(tree, name):
        uvm[macro.value] = name

  numbers, preferred = class_names(trees)
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
                       for n, v in sorted(numbers.items(), key=lambda x: (x[1], x[0]))
                       if n not in generator.emitted)
      top = ('\n// Class numbers, from %s/class/cl*.h and src/nvidia/generated/g_allclasses.h\n\n'
             '%s\n' % (SDK, rows))
      generator.emitted.update(numbers)
    write(header.name, generator.header(header, top, bottom))
  write('escapes.cc', lookup_source('trap/abi/generated/escapes.h', 'EscapeName',
                                    'Names of the ioctls.', escapes, 'nr'))
  write('uvm_ioctl.cc', lookup_source('trap/abi/generated/uvm_ioctl.h', 'UvmIoctlName',
                                      'Names of the UVM ioctls.', uvm, 'nr'))
  write('rm_classes.cc', lookup_source('trap/abi/generated/rm_classes.h', 'RmClassName',
                                       'Names of the classes.', preferred, 'rm_class'))
  write('rm_control_names.h', small_header(
      'rm_control_names.h', 'Names of every resource manager control in the SDK.',
      declaration('RmControlName', 'cmd', 'The name of a control, or nullptr if it is unknown '
                  '(several are not in the published SDK).')))
  write('rm_control_names.cc', lookup_source(
      'trap/abi/generated/rm_control_names.h', 'RmControlName', 'Names of the controls.',
      merged(trees, 'control_names'), 'cmd'))
  return written


def is_uvm_ioctl(tree, name):
  """Ioctl numbers, as opposed to flags and limits, are defined with UVM_IOCTL_BASE or in full."""
  pattern = re.compile(r'^#define\s+%s\s+(UVM_IOCTL_BASE\(|0x3000000)' % name, re.M)
  return any(pattern.search(text) for _, text in tree.texts(UVM, 'uvm_*ioctl.h'))


def main():
  parser = argparse.ArgumentParser(description=__doc__,
                                   formatter_class=argparse.RawDescriptionHelpFormatter)
  commands = parser.add_subparsers(dest='command', required=True)
  p = commands.add_parser('generate')
  p.add_argument('--out', required=True)
  p.add_argument('tree', nargs='+')
  p = commands.add_parser('diff')
  p.add_argument('tree', nargs='+')
  p = commands.add_parser('dump')
  p.add_argument('tree')
  p.add_argument('name', nargs='+')
  arguments = parser.parse_args()
  if arguments.command == 'generate':
    generate([Tree(t) for t in arguments.tree], arguments.out)
  elif arguments.command == 'diff':
    diff([Tree(t) for t in arguments.tree])
  else:
    dump(Tree(arguments.tree), arguments.name)


def diff(trees):
  for old, new in zip(trees, trees[1:]):
    print('## %s -> %s' % (driver_version(old), driver_version(new)))
    for header in HEADERS:
      print('\n### ' + header.name)
      for name in sorted(set(old.records) | set(new.records)):
        a, b = old.records.get(name), new.records.get(name)
        if not header.wants_record(b or a):
          continue
        if a is None:
          print('- new: %s (%d B)' % (name, b.size))
        elif b is None:
          print('- gone: %s (%d B)' % (name, a.size))
        elif a.shape() != b.shape():
          print('- %s: %s' % (name, describe_difference(a, b)))
      for name in sorted(set(old.macros) & set(new.macros)):
        a, b = old.macros[name], new.macros[name]
        if a.value != b.value and header.wants_macro(name, b):
          print('- constant %s: %s -> %s' % (name, a.value, b.value))


def dump(tree, names):
  for name in names:
    name = tree.aliases.get(name, (name,))[0]
    if name in tree.records:
      record = tree.records[name]
      print('%s %s, %d bytes (%s)' % (record.kind, name, record.size, record.file))
      for path, offset, m in flatten(record):
        print('  %6d %6d  %s' % (offset, m.type.size, path))
    elif name in tree.macros:
      print(name, tree.macros[name])
    else:
      print(name, 'not found', file=sys.stderr)


if __name__ == '__main__':
  main()
