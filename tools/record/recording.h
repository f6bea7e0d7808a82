// What a program and the NVIDIA driver said to each other, as text.
//
//   phantora-recording 1
//   driver 550.163.01
//   process 1 /usr/bin/nvidia-smi
//   file 1 /proc/driver/nvidia/version
//   | NVRM version: ...
//   call 1 /dev/nvidiactl control NV2080_CTRL_CMD_GPU_GET_SHORT_NAME_STRING 8 NV_OK
//     in rm.hClient=handle#1
//     in rm.hObject=handle#3
//     out gpuShortNameString="GH100-A"
//   end
//
// Lines that begin with # are comments. A call is: process (and .thread, if not its first), device,
// kind, name, bytes of its parameters, and how it ended. Kinds and names:
//
//   escape    an ioctl of the resource manager     NV_ESC_RM_FREE
//   control   NV_ESC_RM_CONTROL                    the control
//   alloc     NV_ESC_RM_ALLOC                      the class
//   uvm       an ioctl of UVM                      UVM_REGISTER_GPU
//   open      of a device; no parameters           -
//   mmap      of a device                          -
//
// Names are NVIDIA's, or numbers where there is none that is public. It ends with an NV_STATUS,
// with errno (EINVAL), with "ok" where the parameters have no status, or with "unfinished". "in"
// lines are parameters before the call that are not 0; "out" lines those that the call has changed.
// Members have the names of trap/abi's structures, and those of NVOS54 and NVOS64, around a
// control's and an allocation's own, begin with "rm.". What a pointer leads to has a * before its
// name; +0x10 is the word of 32 bits at that offset of parameters, or of a union, of which no
// layout is known. Values:
//
//   7, 0x7f     numbers         "text"   arrays of bytes that are text     hex:00ff  that are not
//   [1,2*3,0]   arrays: 1, 2, 2, 2, 0; trailing zeros are left out
//   name[SM_VERSION]=2304   an answer of a list of {index, data} pairs, which are decimal; the
//               "in" line name=[SM_VERSION,...] has what was asked
//   !           the memory could not be read
//
// What differs from run to run is masked, so that recordings of the same program are the same:
//
//   handle#1    handles of clients and objects, numbered as they appear in each process: members
//               that are called hClient and the like, and words equal to such a handle
//   ptr         addresses: members that are pointers, and any 64 bits at offsets that 8 divides, be
//               they two members, that lie where Linux puts programs, libraries and stacks
//   gpu#1       GPU ids; gpu-uuid#1 UUIDs of GPUs, as bytes or in texts
//   fd, pid, time, token, serial    by the members' names
//
// What a device's file is mapped with is "ptr" for addresses of UVM; the mapped memory and what is
// written to it is not recorded.
#ifndef PHANTORA_TOOLS_RECORD_RECORDING_H_
#define PHANTORA_TOOLS_RECORD_RECORDING_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace phantora::record {

// One parameter, as its line says.
struct Parameter {
  std::string name, value;

  bool operator==(const Parameter&) const = default;
};

struct RecordedCall {
  int process = 1, thread = 1;  // from 1 on
  std::string device, kind, name;
  uint32_t bytes = 0;
  std::string result;
  std::vector<Parameter> in, out;

  // What `name` is after the call: nullptr if it is 0.
  const std::string* After(absl::string_view name) const;
  bool operator==(const RecordedCall&) const = default;
};

struct RecordedFile {
  int process = 1;
  std::string path, content;  // content: text, or "hex:..."
  bool operator==(const RecordedFile&) const = default;
};

struct Recording {
  std::string driver;                 // version; "" if the program did not ask
  std::vector<std::string> programs;  // of processes 1, 2, ...
  std::vector<std::string> comments;  // without "# "
  std::vector<RecordedFile> files;
  std::vector<RecordedCall> calls;  // process after process, each in its order
};

std::string FormatRecording(const Recording& recording);

// Errors name the line.
absl::StatusOr<Recording> ParseRecording(absl::string_view text);

absl::StatusOr<Recording> ReadRecording(const std::string& path);

// The number that a value is, if it is one ("7", "0x7f").
bool NumberOf(absl::string_view value, uint64_t* number);

// The elements of an array's value, runs written out; empty if it is none. At most 65,536.
std::vector<std::string> ElementsOf(absl::string_view value);

// The text that a value is, without its quotes; false if it is none.
bool TextOf(absl::string_view value, std::string* text);

}  // namespace phantora::record

#endif  // PHANTORA_TOOLS_RECORD_RECORDING_H_
