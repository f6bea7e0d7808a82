#include "trap/files/path_calls.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cerrno>
#include <map>
#include <memory>
#include <string>

#include "trap/linux/fake_listener.h"

namespace phantora {
namespace {

class FakeDevice : public DeviceFile {
 public:
  std::string name() const override { return "fake"; }
  int Ioctl(CallContext&, uint32_t, RemoteAddress) override { return 0; }
};

uint64_t Word(const void* pointer) { return reinterpret_cast<uintptr_t>(pointer); }

// Calls are this process's own: their arguments are its memory, its descriptors and its /proc.
class PathCallsTest : public testing::Test {
 protected:
  PathCallsTest() {
    files_.AddText("/proc/driver/test/version", "one\n");
    files_.AddDirectory("/proc/driver/test");
    files_.AddDevice("/dev/test0", 195, 7, [this](pid_t process) {
      opened_by_ = process;
      return refuse_ ? nullptr : std::make_shared<FakeDevice>();
    });
    files_.AddDirectory("/sys/devices/test");
    files_.AddText("/sys/devices/test/vendor", "0x10de\n");
    files_.AddLink("/sys/bus/test", "../devices/test");
    files_.AddLink("/sys/bus/circle", "circle");
    files_.Hide("/dev/test");
    files_.ReplaceLibrary("libtest.so.2", "replaced");
  }

  // What the call is answered with; it continues if it is about none of the files.
  FakeListener::Answer Do(int number, std::initializer_list<uint64_t> arguments) {
    const seccomp_notif call = listener_.Call(getpid(), number, arguments);
    const auto paths = PathCalls::Read(call);
    if (!paths) return {.continues = true};
    const TrappedCall trapped(call, tracee_, listener_);
    calls_.Serve(trapped, *paths, &files_);
    const auto answer = listener_.AnswerOf(call);
    EXPECT_TRUE(answer) << "not answered";
    return answer.value_or(FakeListener::Answer());
  }
  FakeListener::Answer Open(const std::string& path, uint64_t flags) {
    return Do(SYS_open, {Word(path.c_str()), flags});
  }
  static std::string Content(const FakeListener::Answer& answer) {
    char text[64] = {};
    const ssize_t length = pread(answer.descriptor, text, sizeof text, 0);
    close(answer.descriptor);
    return std::string(text, length > 0 ? static_cast<size_t>(length) : 0);
  }

  UniqueFd epoll_{epoll_create1(EPOLL_CLOEXEC)};
  SyntheticFiles files_;
  OpenFiles open_files_{epoll_.get()};
  CallLog log_;
  TurnLock lock_;
  ProcessLinks links_;
  std::map<std::string, bool> readable_;
  HostFileProbe probe_{
      [this](const std::string& path) { return readable_[path.substr(path.find("/root") + 5)]; }};
  FakeListener listener_;
  Tracee tracee_{getpid()};
  PathCalls calls_{{.open_files = &open_files_,
                    .log = &log_,
                    .machine_lock = &lock_,
                    .links = &links_,
                    .probe = &probe_}};
  pid_t opened_by_ = 0;
  bool refuse_ = false;
};

TEST_F(PathCallsTest, OtherPathsAreTheKernels) {
  EXPECT_TRUE(Open("/usr/lib/libc.so.6", O_RDONLY).continues);
  EXPECT_TRUE(Open("/dev/null", O_RDWR).continues);
  EXPECT_TRUE(Do(SYS_open, {0, O_RDONLY}).continues);  // no memory there
  EXPECT_TRUE(Do(SYS_getpid, {}).continues);
}

TEST_F(PathCallsTest, AnOverlongPathIsTheKernels) {
  const std::string path = "/dev/" + std::string(5000, 'x');
  EXPECT_TRUE(Open(path, O_RDONLY).continues);
}

TEST_F(PathCallsTest, TextsAreReadAndNothingElse) {
  const std::string path = "/proc/driver/test/version";
  EXPECT_EQ(Content(Open(path, O_RDONLY)), "one\n");
  EXPECT_EQ(Open(path, O_RDWR).error, EACCES);
  EXPECT_EQ(Open(path, O_WRONLY | O_CREAT | O_TRUNC).error, EACCES);
  EXPECT_EQ(Open(path, O_CREAT | O_EXCL).error, EEXIST);
  EXPECT_EQ(Open(path, O_RDONLY | O_DIRECTORY).error, ENOTDIR);
  EXPECT_EQ(Content(Open(path, O_RDONLY | O_CREAT)), "one\n");
  EXPECT_EQ(Do(SYS_creat, {Word(path.c_str()), 0600}).error, EACCES);
}

TEST_F(PathCallsTest, ATextIsSealed) {
  const auto answer = Open("/proc/driver/test/version", O_RDONLY);
  const std::string again = "/proc/self/fd/" + std::to_string(answer.descriptor);
  const int writable = open(again.c_str(), O_RDWR);
  EXPECT_TRUE(writable < 0 || write(writable, "x", 1) < 0);
  if (writable >= 0) close(writable);
  close(answer.descriptor);
}

TEST_F(PathCallsTest, DevicesAreMadeForTheProcess) {
  const auto answer = Open("/dev/test0", O_RDWR | O_CREAT);
  EXPECT_GE(answer.descriptor, 0);
  EXPECT_EQ(opened_by_, getpid());
  EXPECT_EQ(open_files_.size(), 1u);
  EXPECT_NE(open_files_.Find(getpid(), answer.descriptor), nullptr);
  close(answer.descriptor);
  refuse_ = true;
  EXPECT_EQ(Open("/dev/test0", O_RDWR).error, ENODEV);
}

TEST_F(PathCallsTest, ACallersFullTableIsTold) {
  listener_.FailDescriptors(absl::ResourceExhaustedError("full"));
  EXPECT_EQ(Open("/dev/test0", O_RDWR).error, EMFILE);
}

TEST_F(PathCallsTest, ACallerThatDiedOpensNothing) {
  const seccomp_notif call = listener_.Call(getpid(), SYS_open, {Word("/dev/test0"), O_RDWR});
  const auto paths = PathCalls::Read(call);
  ASSERT_TRUE(paths);
  listener_.Die(call.id);
  calls_.Serve(TrappedCall(call, tracee_, listener_), *paths, &files_);
  EXPECT_EQ(opened_by_, 0);
  EXPECT_FALSE(listener_.AnswerOf(call));
}

TEST_F(PathCallsTest, WhatIsHiddenIsNotThereAndCannotBeMade) {
  EXPECT_EQ(Open("/dev/test1", O_RDWR).error, ENOENT);
  EXPECT_EQ(Open("/dev/test1", O_RDWR | O_CREAT).error, EACCES);
  EXPECT_EQ(Do(SYS_mknod, {Word("/dev/test1"), S_IFCHR, 0}).error, EACCES);
  EXPECT_EQ(Do(SYS_access, {Word("/dev/test1"), F_OK}).error, ENOENT);
}

TEST_F(PathCallsTest, NamesThatAreThereAreNotMadeMovedOrRemoved) {
  const uint64_t node = Word("/dev/test0"), free = Word("/tmp/free");
  for (const int call : {SYS_mknod, SYS_mkdir}) EXPECT_EQ(Do(call, {node, 0, 0}).error, EEXIST);
  EXPECT_EQ(Do(SYS_symlink, {free, node}).error, EEXIST);
  EXPECT_EQ(Do(SYS_link, {free, node}).error, EEXIST);
  EXPECT_EQ(Do(SYS_linkat, {AT_FDCWD + 0ull, free, AT_FDCWD + 0ull, node, 0}).error, EEXIST);
  for (const int call : {SYS_unlink, SYS_rmdir}) EXPECT_EQ(Do(call, {node}).error, EACCES);
  EXPECT_EQ(Do(SYS_rename, {node, free}).error, EACCES);
  EXPECT_EQ(Do(SYS_rename, {free, node}).error, EACCES);
  EXPECT_EQ(Do(SYS_renameat2, {AT_FDCWD + 0ull, free, AT_FDCWD + 0ull, node, 0}).error, EACCES);
  EXPECT_TRUE(Do(SYS_rename, {free, Word("/tmp/other")}).continues);
  // What a symbolic link contains is nobody's affair until it is followed.
  EXPECT_TRUE(Do(SYS_symlink, {node, free}).continues);
}

TEST_F(PathCallsTest, StatusIsTheSameByEveryCall) {
  struct stat by_stat {
  }, by_at{};
  struct statx by_statx {};
  const uint64_t path = Word("/proc/driver/test/version");
  EXPECT_EQ(Do(SYS_stat, {path, Word(&by_stat)}).error, 0);
  EXPECT_EQ(Do(SYS_newfstatat, {AT_FDCWD + 0ull, path, Word(&by_at), 0}).error, 0);
  EXPECT_EQ(Do(SYS_statx, {AT_FDCWD + 0ull, path, 0, STATX_ALL, Word(&by_statx)}).error, 0);
  EXPECT_TRUE(S_ISREG(by_stat.st_mode));
  EXPECT_EQ(by_stat.st_size, 4);
  EXPECT_EQ(by_at.st_ino, by_stat.st_ino);
  EXPECT_EQ(by_statx.stx_ino, by_stat.st_ino);
  EXPECT_EQ(by_statx.stx_size, 4u);
  EXPECT_EQ(by_statx.stx_mode, by_stat.st_mode);
}

TEST_F(PathCallsTest, ADevicesStatusHasItsNumbers) {
  struct stat status {};
  EXPECT_EQ(Do(SYS_stat, {Word("/dev/test0"), Word(&status)}).error, 0);
  EXPECT_TRUE(S_ISCHR(status.st_mode));
  EXPECT_EQ(status.st_rdev, makedev(195, 7));
  EXPECT_EQ(Do(SYS_stat, {Word("/dev/test0"), 8}).error, EFAULT);
}

TEST_F(PathCallsTest, LinksAreFollowedUnlessTheCallSaysOtherwise) {
  struct stat status {};
  const uint64_t link = Word("/sys/bus/test"), at = Word(&status);
  const uint64_t here = AT_FDCWD + 0ull;
  EXPECT_EQ(Do(SYS_stat, {link, at}).error, 0);
  EXPECT_TRUE(S_ISDIR(status.st_mode));
  EXPECT_EQ(Do(SYS_lstat, {link, at}).error, 0);
  EXPECT_TRUE(S_ISLNK(status.st_mode));
  EXPECT_EQ(Do(SYS_newfstatat, {here, link, at, AT_SYMLINK_NOFOLLOW}).error, 0);
  EXPECT_TRUE(S_ISLNK(status.st_mode));
  EXPECT_EQ(Open("/sys/bus/test", O_RDONLY | O_NOFOLLOW).error, ELOOP);
  EXPECT_EQ(Content(Open("/sys/bus/test/vendor", O_RDONLY)), "0x10de\n");
  EXPECT_EQ(Content(Open("/sys/bus/test/../test/vendor", O_RDONLY)), "0x10de\n");
  EXPECT_EQ(Open("/sys/bus/circle", O_RDONLY).error, ELOOP);
}

TEST_F(PathCallsTest, ReadLinkTellsTheTarget) {
  char target[64] = {};
  EXPECT_EQ(Do(SYS_readlink, {Word("/sys/bus/test"), Word(target), sizeof target}).value, 15);
  EXPECT_STREQ(target, "../devices/test");
  char few[4] = {};
  EXPECT_EQ(Do(SYS_readlinkat, {AT_FDCWD + 0ull, Word("/sys/bus/test"), Word(few), 3}).value, 3);
  EXPECT_STREQ(few, "../");
  EXPECT_EQ(Do(SYS_readlink, {Word("/dev/test0"), Word(target), 64}).error, EINVAL);
  EXPECT_EQ(Do(SYS_readlink, {Word("/sys/bus/test"), 8, 64}).error, EFAULT);
}

TEST_F(PathCallsTest, AccessGoesByTheMode) {
  const uint64_t text = Word("/proc/driver/test/version"), here = AT_FDCWD + 0ull;
  EXPECT_EQ(Do(SYS_access, {text, R_OK}).error, 0);
  EXPECT_EQ(Do(SYS_access, {text, W_OK}).error, EACCES);
  EXPECT_EQ(Do(SYS_faccessat, {here, text, X_OK}).error, EACCES);
  EXPECT_EQ(Do(SYS_faccessat2, {here, text, R_OK, 0}).error, 0);
  EXPECT_EQ(Do(SYS_access, {Word("/dev/test0"), R_OK | W_OK}).error, 0);
}

TEST_F(PathCallsTest, FileSystemsAreThoseOfTheNames) {
  struct statfs status {};
  EXPECT_EQ(Do(SYS_statfs, {Word("/proc/driver/test/version"), Word(&status)}).error, 0);
  EXPECT_EQ(status.f_type, PROC_SUPER_MAGIC);
  EXPECT_EQ(Do(SYS_statfs, {Word("/sys/devices/test/vendor"), Word(&status)}).error, 0);
  EXPECT_EQ(status.f_type, SYSFS_MAGIC);
}

TEST_F(PathCallsTest, OpenHowIsReadOnceAndMayBeMissing) {
  open_how how{};
  how.flags = O_RDONLY;
  const uint64_t path = Word("/proc/driver/test/version");
  const auto answer = Do(SYS_openat2, {AT_FDCWD + 0ull, path, Word(&how), sizeof how});
  EXPECT_EQ(Content(answer), "one\n");
  EXPECT_TRUE(Do(SYS_openat2, {AT_FDCWD + 0ull, path, 8, sizeof how}).continues);
}

TEST_F(PathCallsTest, RelativePathsAndDescriptorsOfListings) {
  const int root = open("/", O_PATH | O_DIRECTORY);
  const std::string path = "proc/driver/test/version";
  EXPECT_EQ(Content(Do(SYS_openat, {static_cast<uint64_t>(root), Word(path.c_str()), O_RDONLY})),
            "one\n");
  close(root);
  const auto listing = Open("/sys/devices/test", O_RDONLY | O_DIRECTORY);
  ASSERT_GE(listing.descriptor, 0);
  EXPECT_EQ(Content(Do(SYS_openat,
                       {static_cast<uint64_t>(listing.descriptor), Word("vendor"), O_RDONLY})),
            "0x10de\n");
  close(listing.descriptor);
  EXPECT_EQ(Open("/sys/devices/test", O_RDWR).error, EISDIR);
}

TEST_F(PathCallsTest, NeighboursAreOpenedUnderTheNameThatWasLookedAt) {
  const auto answer = Open("/proc/version", O_RDONLY);
  EXPECT_GE(answer.descriptor, 0);
  EXPECT_FALSE(Content(answer).empty());
  EXPECT_EQ(Open("/proc/versionz", O_RDONLY).error, ENOENT);
  // These mean another file to everyone who opens them, or do more than read.
  EXPECT_TRUE(Open("/proc/self/maps", O_RDONLY).continues);
  EXPECT_TRUE(Open("/proc/mounts", O_RDONLY).continues);
  EXPECT_TRUE(Open("/proc/1/status", O_RDONLY).continues);
  EXPECT_TRUE(Open("/proc/sys/kernel/hostname", O_RDWR).continues);
}

TEST_F(PathCallsTest, ALibraryIsReplacedForReadersWhereThereIsOne) {
  readable_["/opt/lib/libtest.so.2"] = readable_["/opt/lib/libtest.so.2.7"] = true;
  EXPECT_EQ(Content(Open("/opt/libnccl/../lib/libtest.so.2", O_RDONLY)), "replaced");
  EXPECT_TRUE(Open("/opt/libnccl/../other/libtest.so.2", O_RDONLY).continues);
  EXPECT_TRUE(Open("/opt/libnccl/../lib/libtest.so.2", O_WRONLY | O_CREAT).continues);
  struct stat status {};
  EXPECT_TRUE(Do(SYS_stat, {Word("/opt/libnccl/../lib/libtest.so.2"), Word(&status)}).continues);
}

}  // namespace
}  // namespace phantora
