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
  abi_layouts.py generate --out trap/abi/generated TREE_535 TREE_550 TREE_580
      Writes the headers.  The trees are checkouts of NVIDIA/open-gpu-kernel-modules (or of the
      same files laid out in the same way), oldest driver first.
  abi_layouts.py diff TREE TREE...
      Prints every structure and constant of the generated headers that differs among the trees.
  abi_layouts.py dump TREE NAME...
      Prints the layouts of the named structures and the values of the named macros.

Where the trees disagree about a structure or a number, the oldest one has the plain name and the
newer ones get a suffix (_V550, _V580).  test/abi_parity_test.py compares the committed headers
with the driver's.
"""

import argparse
import sys

from abi_dwarf import flatten
from abi_emit import describe_difference, generate
from abi_headers import HEADERS
from abi_tree import Tree, driver_version


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


if __name__ == '__main__':
  main()
