#include "trap/rm/rm_objects.h"

#include <gtest/gtest.h>

#include "trap/abi/generated/nv_status.h"

namespace phantora {
namespace {

struct Recorder : RmResource {
  Recorder(std::vector<int>* order, int id) : order(order), id(id) {}
  ~Recorder() override { order->push_back(id); }
  std::vector<int>* order;
  int id;
};

class RmObjectsTest : public testing::Test {
 protected:
  RmClient& Client(pid_t process = 10) {
    uint32_t handle = 0;
    EXPECT_EQ(server_.AddClient({.process = process}, &handle), abi::NV_OK);
    return *server_.FindAny(handle);
  }
  uint32_t Add(RmClient& client, uint32_t parent, int id, uint32_t handle = 0) {
    EXPECT_EQ(client.Insert({.handle = handle,
                             .parent = parent,
                             .class_id = 1,
                             .children = {},
                             .resource = std::make_shared<Recorder>(&order_, id)},
                            &handle),
              abi::NV_OK);
    return handle;
  }

  std::vector<int> order_;  // outlives the objects, which write to it
  RmServer server_;
};

TEST_F(RmObjectsTest, FreesChildrenFirstAndLaterSiblingsFirst) {
  RmClient& client = Client();
  const uint32_t device = Add(client, client.handle(), 1);
  const uint32_t first = Add(client, device, 2);
  Add(client, device, 3);
  Add(client, first, 4);
  EXPECT_EQ(client.Free(device), abi::NV_OK);
  EXPECT_EQ(order_, (std::vector<int>{4, 3, 2, 1}));
  EXPECT_EQ(client.size(), 1u);
  EXPECT_EQ(client.Free(device), abi::NV_ERR_INVALID_OBJECT_HANDLE);
}

TEST_F(RmObjectsTest, ADuplicateKeepsTheResourceAlive) {
  RmClient& client = Client();
  RmClient& other = Client(11);
  const uint32_t object = Add(client, client.handle(), 1);
  uint32_t copy = 0;
  EXPECT_EQ(other.Insert({.handle = 0,
                          .parent = other.handle(),
                          .class_id = 1,
                          .children = {},
                          .resource = client.Find(object)->resource},
                         &copy),
            abi::NV_OK);
  server_.ProcessDied(10);
  EXPECT_TRUE(order_.empty());
  EXPECT_EQ(server_.size(), 1u);
  server_.ProcessDied(11);
  EXPECT_EQ(order_, (std::vector<int>{1}));
}

TEST_F(RmObjectsTest, HandlesAreUniqueAndParentsMustExist) {
  RmClient& client = Client();
  Add(client, client.handle(), 1, 0x77);
  uint32_t handle = 0x77;
  EXPECT_EQ(client.Insert({.handle = 0x77,
                           .parent = client.handle(),
                           .class_id = 1,
                           .children = {},
                           .resource = {}},
                          &handle),
            abi::NV_ERR_INSERT_DUPLICATE_NAME);
  EXPECT_EQ(
      client.Insert({.handle = 0, .parent = 0x1234, .class_id = 1, .children = {}, .resource = {}},
                    &handle),
      abi::NV_ERR_INVALID_OBJECT_PARENT);
}

TEST_F(RmObjectsTest, AClientBelongsToItsProcess) {
  RmClient& client = Client(10);
  EXPECT_EQ(server_.FindFor(10, client.handle()), &client);
  EXPECT_EQ(server_.FindFor(11, client.handle()), nullptr);
}

TEST_F(RmObjectsTest, ATreeMayBeAsDeepAsItIsLarge) {
  RmClient& client = Client();
  uint32_t parent = client.handle();
  for (int i = 0; i < 200000; ++i) {
    uint32_t handle = 0;
    ASSERT_EQ(client.Insert(
                  {.handle = 0, .parent = parent, .class_id = 1, .children = {}, .resource = {}},
                  &handle),
              abi::NV_OK);
    parent = handle;
  }
  server_.FreeClient(client.handle());
  EXPECT_EQ(server_.size(), 0u);
}

TEST_F(RmObjectsTest, AProcessCannotMakeClientsWithoutEnd) {
  uint32_t status = abi::NV_OK;
  for (int i = 0; i < 5000 && status == abi::NV_OK; ++i) {
    uint32_t handle = 0;
    status = server_.AddClient({.process = 10}, &handle);
  }
  EXPECT_EQ(status, abi::NV_ERR_INSUFFICIENT_RESOURCES);
  uint32_t handle = 0;
  EXPECT_EQ(server_.AddClient({.process = 11}, &handle), abi::NV_OK);
}

}  // namespace
}  // namespace phantora
