"""A driver source tree: its layouts, constants and numbers, as the compiler sees its headers."""

import dataclasses
import glob
import os
import re
import subprocess
import tempfile

from abi_dwarf import Dwarf

SDK = 'src/common/sdk/nvidia/inc'
UNIX = 'src/nvidia/arch/nvalloc/unix/include'
UVM = 'kernel-open/nvidia-uvm'
COMMON = 'kernel-open/common/inc'
# In this order: the SDK's copies of shared headers are preferred over those of kernel-open.
INCLUDE_DIRS = (SDK, 'src/common/inc', UNIX, COMMON, UVM, 'src/nvidia/generated')


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


def version_suffix(tree):
  """_V550 for a tree of driver 550.x (from the tree's directory or its version.mk)."""
  return '_V' + driver_version(tree).split('.')[0]


def is_uvm_ioctl(tree, name):
  """Ioctl numbers, as opposed to flags and limits, are defined with UVM_IOCTL_BASE or in full."""
  pattern = re.compile(r'^#define\s+%s\s+(UVM_IOCTL_BASE\(|0x3000000)' % name, re.M)
  return any(pattern.search(text) for _, text in tree.texts(UVM, 'uvm_*ioctl.h'))
