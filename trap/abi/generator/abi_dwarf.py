"""Layouts of C structures, from the DWARF that gcc writes (through binutils' `readelf`)."""

import dataclasses
import os
import re
import subprocess


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
