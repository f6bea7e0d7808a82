#include "trap/time/futex_call.h"

#include <linux/futex.h>

#include <algorithm>
#include <cerrno>
#include <optional>

namespace phantora {
namespace {

// As linux/futex.h packs it (FUTEX_OP).
struct Operation {
  explicit Operation(uint32_t packed)
      : operation(packed >> 28 & 7),
        comparison(packed >> 24 & 15),
        argument(static_cast<int32_t>(packed << 8) >> 20),
        compared_with(static_cast<int32_t>(packed << 20) >> 20) {
    if ((packed >> 28 & FUTEX_OP_OPARG_SHIFT) != 0) argument = 1 << (argument & 31);
  }

  std::optional<uint32_t> Apply(uint32_t old) const {
    const auto number = static_cast<uint32_t>(argument);
    switch (operation) {
      case FUTEX_OP_SET:
        return number;
      case FUTEX_OP_ADD:
        return old + number;
      case FUTEX_OP_OR:
        return old | number;
      case FUTEX_OP_ANDN:
        return old & ~number;
      case FUTEX_OP_XOR:
        return old ^ number;
      default:
        return std::nullopt;
    }
  }
  std::optional<bool> Compare(uint32_t old_word) const {
    const auto old = static_cast<int32_t>(old_word);
    switch (comparison) {
      case FUTEX_OP_CMP_EQ:
        return old == compared_with;
      case FUTEX_OP_CMP_NE:
        return old != compared_with;
      case FUTEX_OP_CMP_LT:
        return old < compared_with;
      case FUTEX_OP_CMP_LE:
        return old <= compared_with;
      case FUTEX_OP_CMP_GT:
        return old > compared_with;
      case FUTEX_OP_CMP_GE:
        return old >= compared_with;
      default:
        return std::nullopt;
    }
  }

  uint32_t operation, comparison;
  int32_t argument, compared_with;
};

}  // namespace

FutexWake FutexWake::Parse(const CallArguments& call, pid_t process) {
  FutexWake wake;
  const int operation = call.Int(1);
  const bool is_private = (operation & FUTEX_PRIVATE_FLAG) != 0;
  wake.first = {process, call.Word(0), is_private};
  wake.second = {process, call.Word(4), is_private};
  // The kernel counts up to it after it has woken one.
  wake.wakes = static_cast<uint64_t>(std::max(call.Int(2), 1));
  wake.others = static_cast<uint64_t>(std::max(call.Int(3), 0));
  wake.value = static_cast<uint32_t>(call.Word(5));
  switch (operation & FUTEX_CMD_MASK) {
    case FUTEX_WAKE_BITSET:
      wake.bits = wake.value;
      break;
    case FUTEX_WAKE_OP:
      wake.kind = Kind::kOperation;
      wake.others = std::max<uint64_t>(wake.others, 1);
      break;
    case FUTEX_CMP_REQUEUE:
      wake.compares = wake.counts_moved = true;
      [[fallthrough]];
    case FUTEX_REQUEUE:
      wake.kind = Kind::kRequeue;
      wake.wakes = static_cast<uint64_t>(std::max(call.Int(2), 0));
      break;
    default:
      break;
  }
  return wake;
}

std::vector<uint64_t> FutexWake::ToMove(const FutexQueues& queues,
                                        const std::vector<uint64_t>& woken) const {
  if (kind != Kind::kRequeue) return {};
  auto waiters = queues.Waiters(first, wakes + others);
  waiters.erase(waiters.begin(),
                waiters.begin() + static_cast<ptrdiff_t>(std::min(woken.size(), waiters.size())));
  return waiters;
}

FutexWake::Verdict FutexWake::Do(const RemoteMemory& memory) const {
  if (kind == Kind::kOperation) {
    const RemoteAddress at{second.address};
    const auto old = memory.ReadObject<uint32_t>(at);
    if (!old) return {.error = EFAULT};
    const Operation operation(value);
    const auto word = operation.Apply(*old);
    const auto holds = operation.Compare(*old);
    if (!word || !holds) return {.error = ENOSYS};
    if (!memory.WriteObject(at, *word)) return {.error = EFAULT};
    return {.wakes_others = *holds};
  }
  if (compares) {
    const auto word = memory.ReadObject<uint32_t>(RemoteAddress{first.address});
    if (!word) return {.error = EFAULT};
    if (*word != value) return {.error = EAGAIN};
  }
  return {};
}

}  // namespace phantora
