#include "trap/check/library/call_site.h"

#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unwind.h>

#include "trap/check/library/real_functions.h"

namespace phantora::check {
namespace {

// A number that no file has.
constexpr int kPythonDescriptor = -5517;
constexpr size_t kMostFrames = 4;
constexpr char kBetween[] = " < ";

// What a thread of Python's says while it is asked.
struct PythonText {
  bool wanted = false;
  size_t length = 0;
  char text[4096];
};
thread_local PythonText python;

class Text {
 public:
  Text(char* to, size_t bytes) : to_(to), left_(bytes) { *to = '\0'; }
  void Add(const char* from, size_t length) {
    if (length >= left_) length = left_ - 1;
    memcpy(to_, from, length);
    to_ += length, left_ -= length;
    *to_ = '\0';
  }
  void Add(const char* from) { Add(from, strlen(from)); }

 private:
  char* to_;
  size_t left_;
};

// The last two parts of a path.
const char* Shortened(const char* path, const char* end) {
  int slashes = 0;
  for (const char* at = end; at > path; --at) {
    if (at[-1] == '/' && ++slashes == 2) return at;
  }
  return path;
}

bool Contains(const char* begin, const char* end, const char* what) {
  const size_t length = strlen(what);
  for (; begin + length <= end; ++begin) {
    if (memcmp(begin, what, length) == 0) return true;
  }
  return false;
}
// Of the program itself, not of what it has installed.
bool IsOwn(const char* begin, const char* end) {
  return !Contains(begin, end, "-packages/") && !Contains(begin, end, "/lib/python") &&
         *begin != '<';
}

// Of lines '  File "PATH", line N in NAME', the innermost first: that one, and the next of the
// program's own files.
bool AddPython(Text& text) {
  // As faulthandler asks, which takes no lock and needs none: the thread's own frames stay where
  // they are meanwhile. (_Py_DumpTraceback: Include/internal/pycore_traceback.h.)
  using StateOfThread = void* (*)();
  using DumpTraceback = void (*)(int, void*);
  static const auto state_of_thread =
      reinterpret_cast<StateOfThread>(RealDlsym(RTLD_DEFAULT, "PyGILState_GetThisThreadState"));
  static const auto dump =
      reinterpret_cast<DumpTraceback>(RealDlsym(RTLD_DEFAULT, "_Py_DumpTraceback"));
  using IsInitialized = int (*)();
  static const auto initialized =
      reinterpret_cast<IsInitialized>(RealDlsym(RTLD_DEFAULT, "Py_IsInitialized"));
  if (state_of_thread == nullptr || dump == nullptr || initialized == nullptr || !initialized()) {
    return false;
  }
  void* const state = state_of_thread();
  if (state == nullptr) return false;
  python.wanted = true;
  python.length = 0;
  dump(kPythonDescriptor, state);
  python.wanted = false;
  python.text[python.length] = '\0';
  size_t frames = 0, own_frames = 0;
  for (const char* line = python.text; line != nullptr && *line != '\0';) {
    const char* const next = strchr(line, '\n');
    const char* const end = next != nullptr ? next : line + strlen(line);
    constexpr char kBegin[] = "  File \"", kMiddle[] = "\", line ";
    const char* const middle = strstr(line, kMiddle);
    if (strncmp(line, kBegin, sizeof kBegin - 1) == 0 && middle != nullptr && middle < end) {
      const char* const path = line + sizeof kBegin - 1;
      const bool own = IsOwn(path, middle);
      if (frames == 0 || own) {
        if (frames > 0) text.Add(kBetween);
        const char* const shortened = Shortened(path, middle);
        text.Add(shortened, static_cast<size_t>(middle - shortened));
        text.Add(":");
        const char* const number = middle + sizeof kMiddle - 1;
        text.Add(number, static_cast<size_t>(end - number));
        ++frames;
        if (own && ++own_frames == kMostFrames) return true;
      }
    }
    line = next != nullptr ? next + 1 : nullptr;
  }
  return frames > 0;
}

struct Walk {
  Text* text;
  size_t frames = 0;
  const void* self;  // where this library begins
};

_Unwind_Reason_Code AddFrame(_Unwind_Context* context, void* argument) {
  Walk& walk = *static_cast<Walk*>(argument);
  // The call, not what it returns to.
  const uintptr_t at = _Unwind_GetIP(context) - 1;
  Dl_info info;
  if (dladdr(reinterpret_cast<void*>(at), &info) == 0 || info.dli_fname == nullptr) {
    return _URC_NO_REASON;
  }
  const char* const name = info.dli_fname;
  const char* const end = name + strlen(name);
  if (info.dli_fbase == walk.self || Contains(name, end, "/libcuda") ||
      Contains(name, end, "/libc.so")) {
    return _URC_NO_REASON;
  }
  if (walk.frames > 0) walk.text->Add(kBetween);
  char place[32];
  if (info.dli_sname != nullptr) {
    walk.text->Add(info.dli_sname);
    snprintf(place, sizeof place, "+0x%zx in ", at - reinterpret_cast<uintptr_t>(info.dli_saddr));
    walk.text->Add(place);
    walk.text->Add(Shortened(name, end));
  } else {
    walk.text->Add(Shortened(name, end));
    snprintf(place, sizeof place, "+0x%zx", at - reinterpret_cast<uintptr_t>(info.dli_fbase));
    walk.text->Add(place);
  }
  return ++walk.frames == kMostFrames ? _URC_END_OF_STACK : _URC_NO_REASON;
}

}  // namespace

void DescribeCallSite(char* where, size_t bytes) {
  Text text(where, bytes);
  if (AddPython(text)) return;
  Dl_info self;
  Walk walk = {.text = &text, .self = nullptr};
  if (dladdr(reinterpret_cast<void*>(&DescribeCallSite), &self) != 0) walk.self = self.dli_fbase;
  _Unwind_Backtrace(&AddFrame, &walk);
}

bool TakePythonFrames(int descriptor, const void* bytes, size_t length) {
  if (descriptor != kPythonDescriptor || !python.wanted) return false;
  const size_t room = sizeof python.text - 1 - python.length;
  if (length > room) length = room;
  memcpy(python.text + python.length, bytes, length);
  python.length += length;
  return true;
}

}  // namespace phantora::check
