// The resource manager's objects: clients, and a tree of objects in each.
#ifndef PHANTORA_TRAP_RM_RM_OBJECTS_H_
#define PHANTORA_TRAP_RM_RM_OBJECTS_H_

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "trap/gpu/front/gpu_scheduler.h"
#include "trap/rm/share_list.h"
#include "uvm_model/vidmem_heap.h"

namespace phantora {

// What one process has, so that the greed of one rank is not felt by the others.
struct ProcessUsage {
  // Pinned system memory is allocated sparsely; this is what may be asked for.
  static constexpr uint64_t kMostSystemMemory = uint64_t{1} << 40;

  size_t clients = 0, objects = 0, channels = 0, va_spaces = 0;
  std::map<int, std::weak_ptr<Doorbell>> doorbells;  // by GPU
  const std::shared_ptr<VidmemHeap> system_memory = std::make_shared<VidmemHeap>(kMostSystemMemory);
};

// Counts one thing of a process for as long as it lives.
class UsageToken {
 public:
  UsageToken(std::shared_ptr<ProcessUsage> usage, size_t ProcessUsage::*what)
      : usage_(std::move(usage)), what_(what) {
    ++((*usage_).*what_);
  }
  ~UsageToken() { --((*usage_).*what_); }
  UsageToken(const UsageToken&) = delete;
  UsageToken& operator=(const UsageToken&) = delete;

 private:
  const std::shared_ptr<ProcessUsage> usage_;
  size_t ProcessUsage::*const what_;
};

// What an object stands for; shared by its duplicates.
class RmResource {
 public:
  virtual ~RmResource() = default;
  // Set for kinds of which a process may have only so many.
  std::unique_ptr<UsageToken> token;
};

struct RmObject {
  uint32_t handle;
  uint32_t parent;
  uint32_t class_id;
  int gpu = -1;  // index; -1 for objects of no GPU
  std::vector<uint32_t> children;
  std::shared_ptr<RmResource> resource;  // may be null
  // Of its own client on it; Insert() sets what the parent has.
  uint32_t owner_rights = kOwnerRights;
  // Null until it is shared: what holds for the parent holds for it.
  std::unique_ptr<ShareList> shares = nullptr;

  template <typename T>
  std::shared_ptr<T> As() const {
    return std::dynamic_pointer_cast<T>(resource);
  }
};

class RmClient {
 public:
  // Who makes a client, and through what.
  struct Origin {
    pid_t process;
    // The open file that the client belongs to, for comparison only.
    const void* opener = nullptr;
    // The effective user of the process; none if it could not be told.
    std::optional<uid_t> user = std::nullopt;
  };

  // `serial` is never given twice, unlike `handle`.
  RmClient(uint32_t handle, uint64_t serial, Origin origin, std::shared_ptr<ProcessUsage> usage)
      : handle_(handle), serial_(serial), origin_(origin), usage_(std::move(usage)) {
    ++usage_->clients;
  }
  ~RmClient();

  uint32_t handle() const { return handle_; }
  uint64_t serial() const { return serial_; }
  // The process that made it; no other may use it.
  pid_t process() const { return origin_.process; }
  const void* opener() const { return origin_.opener; }
  std::optional<uid_t> user() const { return origin_.user; }
  const std::shared_ptr<ProcessUsage>& usage() const { return usage_; }

  RmObject* Find(uint32_t handle);
  // Adds `object` below its parent, choosing a handle if it has none. Returns an
  // NV_STATUS: the parent must exist and the handle be free.
  uint32_t Insert(RmObject object, uint32_t* handle);
  // Frees the object and everything below it, children before parents and later
  // siblings before earlier ones, as rs_server.c does. NV_STATUS.
  uint32_t Free(uint32_t handle);

  // The doorbell page of the process on GPU `gpu`; nullptr if none can be made.
  std::shared_ptr<Doorbell> DoorbellOf(int gpu, GpuScheduler& scheduler);

  size_t size() const { return objects_.size(); }
  // Calls `function(const RmObject&)` for every object.
  template <typename Function>
  void ForEach(Function function) const {
    for (const auto& [handle, object] : objects_) function(*object);
  }

 private:
  const uint32_t handle_;
  const uint64_t serial_;
  const Origin origin_;
  const std::shared_ptr<ProcessUsage> usage_;
  uint32_t next_handle_ = 0xcaf00000;
  absl::flat_hash_map<uint32_t, std::unique_ptr<RmObject>> objects_;
  std::map<int, std::shared_ptr<Doorbell>> doorbells_;
};

// All clients of all processes, since objects are duplicated between them.
class RmServer {
 public:
  // NV_STATUS; `handle` is chosen if 0.
  uint32_t AddClient(const RmClient::Origin& origin, uint32_t* handle);
  // The client if `process` may use it.
  RmClient* FindFor(pid_t process, uint32_t handle);
  // Any client: the source of a duplication.
  RmClient* FindAny(uint32_t handle);
  // Is the client with this handle still the one with this serial number?
  bool IsAlive(uint32_t handle, uint64_t serial) const;
  void FreeClient(uint32_t handle);
  const std::shared_ptr<ProcessUsage>& UsageOf(pid_t process);
  void ProcessDied(pid_t process);
  size_t size() const { return clients_.size(); }
  // Calls `function(const RmClient&)` for every client.
  template <typename Function>
  void ForEach(Function function) const {
    for (const auto& [handle, client] : clients_) function(*client);
  }

 private:
  absl::flat_hash_map<uint32_t, std::unique_ptr<RmClient>> clients_;
  absl::flat_hash_map<pid_t, std::shared_ptr<ProcessUsage>> usage_;
  uint32_t next_client_ = 0xc1d00001;
  uint64_t next_serial_ = 1;
};

}  // namespace phantora

#endif  // PHANTORA_TRAP_RM_RM_OBJECTS_H_
