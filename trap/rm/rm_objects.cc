#include "trap/rm/rm_objects.h"

#include <algorithm>
#include <utility>

#include "trap/abi/generated/nv_status.h"

namespace phantora {
namespace {

// Bounds on what one process can make the supervisor keep.
constexpr size_t kMostObjectsPerProcess = 1 << 18;
constexpr size_t kMostClientsPerProcess = 1 << 10;

}  // namespace

RmClient::~RmClient() {
  --usage_->clients;
  usage_->objects -= objects_.size();
}

RmObject* RmClient::Find(uint32_t handle) {
  auto it = objects_.find(handle);
  return it == objects_.end() ? nullptr : it->second.get();
}

uint32_t RmClient::Insert(RmObject object, uint32_t* handle) {
  RmObject* parent = Find(object.parent);
  const bool is_root = object.handle == handle_;
  if (parent == nullptr && !is_root) return abi::NV_ERR_INVALID_OBJECT_PARENT;
  if (usage_->objects >= kMostObjectsPerProcess) return abi::NV_ERR_INSUFFICIENT_RESOURCES;
  if (object.handle == 0) {
    while (next_handle_ == 0 || objects_.contains(next_handle_)) ++next_handle_;
    object.handle = next_handle_++;
  } else if (objects_.contains(object.handle)) {
    return abi::NV_ERR_INSERT_DUPLICATE_NAME;
  }
  *handle = object.handle;
  if (parent != nullptr) {
    parent->children.push_back(object.handle);
    object.owner_rights = parent->owner_rights;
  }
  ++usage_->objects;
  objects_[*handle] = std::make_unique<RmObject>(std::move(object));
  return abi::NV_OK;
}

uint32_t RmClient::Free(uint32_t handle) {
  RmObject* top = Find(handle);
  if (top == nullptr) return abi::NV_ERR_INVALID_OBJECT_HANDLE;
  if (RmObject* parent = Find(top->parent); parent != nullptr) {
    auto& siblings = parent->children;
    siblings.erase(std::remove(siblings.begin(), siblings.end(), handle), siblings.end());
  }
  // Parents first, then their children in order; freed from the end. Not
  // recursive: a hostile tree may be as deep as it is large.
  std::vector<uint32_t> order = {handle};
  for (size_t i = 0; i < order.size(); ++i) {
    const auto& children = Find(order[i])->children;
    order.insert(order.end(), children.begin(), children.end());
  }
  for (auto it = order.rbegin(); it != order.rend(); ++it) objects_.erase(*it);
  usage_->objects -= order.size();
  return abi::NV_OK;
}

std::shared_ptr<Doorbell> RmClient::DoorbellOf(int gpu, GpuScheduler& scheduler) {
  auto& doorbell = doorbells_[gpu];
  if (doorbell == nullptr) doorbell = usage_->doorbells[gpu].lock();
  if (doorbell == nullptr) {
    doorbell = scheduler.AddDoorbell();
    usage_->doorbells[gpu] = doorbell;
  }
  return doorbell;
}

const std::shared_ptr<ProcessUsage>& RmServer::UsageOf(pid_t process) {
  auto& usage = usage_[process];
  if (usage == nullptr) usage = std::make_shared<ProcessUsage>();
  return usage;
}

uint32_t RmServer::AddClient(const RmClient::Origin& origin, uint32_t* handle) {
  const auto usage = UsageOf(origin.process);
  if (usage->clients >= kMostClientsPerProcess) return abi::NV_ERR_INSUFFICIENT_RESOURCES;
  if (*handle == 0) {
    while (clients_.contains(next_client_)) ++next_client_;
    *handle = next_client_++;
  } else if (clients_.contains(*handle)) {
    return abi::NV_ERR_INSERT_DUPLICATE_NAME;
  }
  auto client = std::make_unique<RmClient>(*handle, next_serial_++, origin, usage);
  uint32_t root = 0;
  const uint32_t status = client->Insert(
      {.handle = *handle, .parent = 0, .class_id = 0, .children = {}, .resource = {}}, &root);
  if (status == abi::NV_OK) clients_[*handle] = std::move(client);
  return status;
}

RmClient* RmServer::FindAny(uint32_t handle) {
  auto it = clients_.find(handle);
  return it == clients_.end() ? nullptr : it->second.get();
}

bool RmServer::IsAlive(uint32_t handle, uint64_t serial) const {
  auto it = clients_.find(handle);
  return it != clients_.end() && it->second->serial() == serial;
}

RmClient* RmServer::FindFor(pid_t process, uint32_t handle) {
  RmClient* client = FindAny(handle);
  return client != nullptr && client->process() == process ? client : nullptr;
}

void RmServer::FreeClient(uint32_t handle) {
  auto it = clients_.find(handle);
  if (it == clients_.end()) return;
  it->second->Free(handle);
  clients_.erase(it);
}

void RmServer::ProcessDied(pid_t process) {
  std::vector<uint32_t> gone;
  for (const auto& [handle, client] : clients_) {
    if (client->process() == process) gone.push_back(handle);
  }
  for (uint32_t handle : gone) FreeClient(handle);
  usage_.erase(process);
}

}  // namespace phantora
