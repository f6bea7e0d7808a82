"""What is generated: which headers, and what of the driver's goes into each."""

import os
import re

from abi_dwarf import Array, Scalar
from abi_tree import SDK, UVM

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
# Of suspending the machine.
SKIPPED_RECORDS = re.compile(r'NVPOWERSTATE_')
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
    if self.order(record.file or '') is None or SKIPPED_RECORDS.match(record.name or ''):
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
