// cuStreamWriteValue32/64, cuStreamWaitValue32/64 with every condition, batches; waits satisfied by
// the host, by the device and by another stream, on page-locked and on device memory.
#include <cstring>

#include "test/tracees/tracee.h"

namespace {

enum class Where { kHost, kDevice };

// Eight words that streams write and wait for.
class Words {
 public:
  explicit Words(Where where) : where_(where), device_(64), host_(64) { Clear(); }
  CUdeviceptr at(size_t offset) const {
    return (where_ == Where::kHost ? host_.device() : device_.get()) + offset;
  }
  void Clear() {
    memset(host_.as(), 0, 64);
    CU_CHECK(cuMemsetD8(device_.get(), 0, 64));
    CU_CHECK(cuCtxSynchronize());
  }
  template <typename T>
  T Read(size_t offset) const {
    T value;
    if (where_ == Where::kHost) {
      value = *reinterpret_cast<volatile T*>(host_.as() + offset);
    } else {
      CU_CHECK(cuMemcpyDtoH(&value, device_.get() + offset, sizeof value));
    }
    return value;
  }
  template <typename T>
  void Write(size_t offset, T value, CUstream with) const {
    if (where_ == Where::kHost) {
      *reinterpret_cast<volatile T*>(host_.as() + offset) = value;
    } else {
      // A pinned source makes the copy independent of the stream that waits.
      CU_CHECK(cuMemcpyHtoDAsync(device_.get() + offset, Keep(&value, sizeof value), sizeof value,
                                 with));
    }
  }

 private:
  const void* Keep(const void* data, size_t size) const {
    used_ = (used_ + 8) % kKept;
    memcpy(kept_.as() + used_, data, size);
    return kept_.as() + used_;
  }
  static constexpr size_t kKept = 4096;
  Where where_;
  DeviceMemory device_;
  PinnedMemory host_;
  PinnedMemory kept_{kKept};
  mutable size_t used_ = 0;
};

void TestWrites(const Words& words, bool wide) {
  Stream stream;
  for (uint32_t value : {1u, 0u, 0xdeadbeefu, 0xffffffffu}) {
    CU_CHECK(cuStreamWriteValue32(stream.get(), words.at(4), value, CU_STREAM_WRITE_VALUE_DEFAULT));
    CU_CHECK(
        cuStreamWriteValue32(stream.get(), words.at(12), ~value, CU_STREAM_WRITE_VALUE_DEFAULT));
    stream.Synchronize();
    CHECK_EQ(words.Read<uint32_t>(4), value);
    CHECK_EQ(words.Read<uint32_t>(12), ~value);
    CHECK_EQ(words.Read<uint32_t>(0), 0u);
    CHECK_EQ(words.Read<uint32_t>(8), 0u);
  }
  if (!wide) return;
  const uint64_t value = 0x0123456789abcdefull;
  CU_CHECK(cuStreamWriteValue64(stream.get(), words.at(24), value, CU_STREAM_WRITE_VALUE_DEFAULT));
  stream.Synchronize();
  CHECK_EQ(words.Read<uint64_t>(24), value);
  CHECK_EQ(words.Read<uint64_t>(16), 0u);
  CHECK_EQ(words.Read<uint64_t>(32), 0u);
}

// The stream must stay stopped for `before` and go on for `after`.
void TestWait32(const Words& words, unsigned condition, uint32_t operand, uint32_t before,
                uint32_t after) {
  Stream waiting;
  Stream writing;
  Event passed(CU_EVENT_DISABLE_TIMING);
  words.Write(8, before, writing.get());
  writing.Synchronize();
  CU_CHECK(cuStreamWaitValue32(waiting.get(), words.at(8), operand, condition));
  CU_CHECK(cuEventRecord(passed.get(), waiting.get()));
  for (int i = 0; i < 5; ++i) CU_EXPECT(cuEventQuery(passed.get()), CUDA_ERROR_NOT_READY);
  words.Write(8, after, writing.get());
  CU_CHECK(cuEventSynchronize(passed.get()));
  // Already true: the wait passes at once.
  CU_CHECK(cuStreamWaitValue32(waiting.get(), words.at(8), operand, condition));
  waiting.Synchronize();
  writing.Synchronize();
}

void TestWait64(const Words& words, unsigned condition, uint64_t operand, uint64_t before,
                uint64_t after) {
  Stream waiting;
  Stream writing;
  Event passed(CU_EVENT_DISABLE_TIMING);
  words.Write(16, before, writing.get());
  writing.Synchronize();
  CU_CHECK(cuStreamWaitValue64(waiting.get(), words.at(16), operand, condition));
  CU_CHECK(cuEventRecord(passed.get(), waiting.get()));
  for (int i = 0; i < 5; ++i) CU_EXPECT(cuEventQuery(passed.get()), CUDA_ERROR_NOT_READY);
  words.Write(16, after, writing.get());
  CU_CHECK(cuEventSynchronize(passed.get()));
  waiting.Synchronize();
  writing.Synchronize();
}

void TestWaits(const Words& words, const Context& context, bool wide) {
  TestWait32(words, CU_STREAM_WAIT_VALUE_GEQ, 5, 4, 5);
  TestWait32(words, CU_STREAM_WAIT_VALUE_GEQ, 5, 0, 6);
  // The comparison is cyclic: 3 is "at least" 0xfffffff0, and 0xfffffff0 is not "at least" 3.
  TestWait32(words, CU_STREAM_WAIT_VALUE_GEQ, 0xfffffff0u, 0xffffff00u, 3);
  TestWait32(words, CU_STREAM_WAIT_VALUE_GEQ, 3, 0xfffffff0u, 3);
  TestWait32(words, CU_STREAM_WAIT_VALUE_EQ, 7, 6, 7);
  TestWait32(words, CU_STREAM_WAIT_VALUE_EQ, 7, 8, 7);
  TestWait32(words, CU_STREAM_WAIT_VALUE_EQ, 0, 1, 0);
  TestWait32(words, CU_STREAM_WAIT_VALUE_AND, 0x10, 0xffffffefu, 0x30);
  TestWait32(words, CU_STREAM_WAIT_VALUE_AND, 0x80000001u, 0, 0x80000000u);
  if (context.Attribute(CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_WAIT_VALUE_NOR) != 0) {
    // Passes while ~(memory | operand) is not zero.
    TestWait32(words, CU_STREAM_WAIT_VALUE_NOR, 0x0000ffffu, 0xffff0000u, 0x7fff0000u);
  }
  if (!wide) return;
  const uint64_t high = uint64_t{1} << 40;
  TestWait64(words, CU_STREAM_WAIT_VALUE_GEQ, high, high - 1, high);
  TestWait64(words, CU_STREAM_WAIT_VALUE_EQ, high | 1, high, high | 1);
  TestWait64(words, CU_STREAM_WAIT_VALUE_AND, high, high - 1, high);
}

// Two streams hand a token back and forth a hundred times, with nothing but writes and waits.
void TestPingPong(const Words& words) {
  Stream a;
  Stream b;
  DeviceMemory data(4);
  PinnedMemory log(4 * 100);
  for (uint32_t i = 1; i <= 100; ++i) {
    CU_CHECK(cuMemsetD32Async(data.get(), i, 1, a.get()));
    CU_CHECK(cuStreamWriteValue32(a.get(), words.at(0), i, CU_STREAM_WRITE_VALUE_DEFAULT));
    CU_CHECK(cuStreamWaitValue32(b.get(), words.at(0), i, CU_STREAM_WAIT_VALUE_EQ));
    CU_CHECK(cuMemcpyDtoHAsync(log.as() + 4 * (i - 1), data.get(), 4, b.get()));
    CU_CHECK(cuStreamWriteValue32(b.get(), words.at(4), i, CU_STREAM_WRITE_VALUE_DEFAULT));
    CU_CHECK(cuStreamWaitValue32(a.get(), words.at(4), i, CU_STREAM_WAIT_VALUE_GEQ));
  }
  a.Synchronize();
  b.Synchronize();
  for (uint32_t i = 0; i < 100; ++i) CHECK_EQ(log.as<uint32_t>()[i], i + 1);
}

void TestBatch(const Words& words, bool wide) {
  Stream batch_stream;
  Stream other;
  Event passed(CU_EVENT_DISABLE_TIMING);
  CUstreamBatchMemOpParams ops[4];
  memset(ops, 0, sizeof ops);
  ops[0].writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
  ops[0].writeValue.address = words.at(0);
  ops[0].writeValue.value = 111;
  ops[1].waitValue.operation = CU_STREAM_MEM_OP_WAIT_VALUE_32;
  ops[1].waitValue.address = words.at(4);
  ops[1].waitValue.value = 222;
  ops[1].waitValue.flags = CU_STREAM_WAIT_VALUE_EQ;
  ops[2].writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
  ops[2].writeValue.address = words.at(8);
  ops[2].writeValue.value = 333;
  ops[3].writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_64;
  ops[3].writeValue.address = words.at(16);
  ops[3].writeValue.value64 = 0x4444444444ull;
  const unsigned count = wide ? 4 : 3;
  CU_CHECK(cuStreamBatchMemOp(batch_stream.get(), count, ops, 0));
  CU_CHECK(cuEventRecord(passed.get(), batch_stream.get()));
  // The other stream sees the first write, then lets the batch go on.
  CU_CHECK(cuStreamWaitValue32(other.get(), words.at(0), 111, CU_STREAM_WAIT_VALUE_EQ));
  other.Synchronize();
  CU_EXPECT(cuEventQuery(passed.get()), CUDA_ERROR_NOT_READY);
  CU_CHECK(cuStreamWriteValue32(other.get(), words.at(4), 222, CU_STREAM_WRITE_VALUE_DEFAULT));
  CU_CHECK(cuEventSynchronize(passed.get()));
  other.Synchronize();
  CHECK_EQ(words.Read<uint32_t>(8), 333u);
  if (wide) CHECK_EQ(words.Read<uint64_t>(16), 0x4444444444ull);
}

void TestErrors(const Words& words) {
  Stream stream;
  CU_EXPECT(cuStreamWriteValue32(stream.get(), words.at(1), 1, 0), CUDA_ERROR_INVALID_VALUE);
  CU_EXPECT(cuStreamWaitValue32(stream.get(), words.at(2), 1, 0), CUDA_ERROR_INVALID_VALUE);
  CU_EXPECT(cuStreamWriteValue32(stream.get(), 0, 1, 0), CUDA_ERROR_INVALID_VALUE);
  CU_EXPECT(cuStreamWriteValue32(stream.get(), words.at(0), 1, 0x1000), CUDA_ERROR_INVALID_VALUE);
  // The second version of these functions has no such flag any more.
  CU_EXPECT(
      cuStreamWriteValue32(stream.get(), words.at(0), 1, CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER),
      CUDA_ERROR_INVALID_VALUE);
  stream.Synchronize();
}

}  // namespace

TRACEE(stream_memops) {
  Context context;
  const bool wide = context.Attribute(CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS) != 0;
  for (Where where : {Where::kHost, Where::kDevice}) {
    Words words(where);
    TestWrites(words, wide);
    words.Clear();
    TestWaits(words, context, wide);
    words.Clear();
    TestPingPong(words);
    words.Clear();
    TestBatch(words, wide);
    TestErrors(words);
  }
}
