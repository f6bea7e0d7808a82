#include "trap/gpu/real/waiting_space.h"

#include <cstring>

namespace phantora {

absl::Status WaitingSpace::Sleep() {
  for (auto& [address, piece] : pieces_) {
    const auto bytes = remote_->Get(address, kPiece);
    if (!bytes.ok()) return bytes.status();
    if (!PageStore::IsZero(bytes->data(), kPiece)) {
      piece = std::make_unique<DeviceMemory>(store_, kPiece);
      if (!piece->Write(0, bytes->data(), kPiece)) {
        return absl::ResourceExhaustedError("the host has no memory left for what waits");
      }
    }
    if (auto status = remote_->Unmap(address); !status.ok()) return status;
  }
  awake_ = false;
  return absl::OkStatus();
}

absl::Status WaitingSpace::Wake() {
  for (auto& [address, piece] : pieces_) {
    if (auto status = remote_->Map(address); !status.ok()) return status;
    DeviceMemory* const saved = piece.get();
    for (uint64_t at = 0; saved != nullptr && at < kPiece;) {
      const auto run = saved->RunAt(at, kPiece - at);
      if (!run.empty) {
        auto status = remote_->Put(address + at, run.length,
                                   [&](uint8_t* to) { saved->Read(at, to, run.length); });
        if (!status.ok()) return status;
      }
      at += run.length;
    }
    piece.reset();
  }
  awake_ = true;
  while (!notes_.empty()) {
    if (auto status = Do(notes_.front()); !status.ok()) return status;
    notes_.pop_front();
  }
  noted_bytes_ = 0;
  return absl::OkStatus();
}

absl::Status WaitingSpace::Do(const Note& note) {
  switch (note.kind) {
    case Note::Kind::kPut:
      return remote_->Put(note.address, note.bytes,
                          [&](uint8_t* to) { std::memcpy(to, note.data.data(), note.bytes); });
    case Note::Kind::kCopy:
      return remote_->Copy(note.address, note.from, note.bytes);
    case Note::Kind::kFill:
      return remote_->Fill(note.address, note.bytes, note.data);
    case Note::Kind::kLaunch: {
      RemoteLaunch launch = note.launch;
      launch.parameters = note.data;
      return remote_->Launch(launch);
    }
  }
  return absl::OkStatus();
}

void WaitingSpace::Add(Note note) {
  noted_bytes_ += note.data.size();
  notes_.push_back(std::move(note));
}

absl::Status WaitingSpace::Map(uint64_t address) {
  pieces_[address] = nullptr;
  return awake_ ? remote_->Map(address) : absl::OkStatus();
}

absl::Status WaitingSpace::Unmap(uint64_t address) {
  pieces_.erase(address);
  return awake_ ? remote_->Unmap(address) : absl::OkStatus();
}

absl::Status WaitingSpace::Put(uint64_t address, uint64_t bytes,
                               absl::FunctionRef<void(uint8_t*)> fill) {
  if (awake_) return remote_->Put(address, bytes, fill);
  Note note = {
      .kind = Note::Kind::kPut, .address = address, .bytes = bytes, .data = {}, .launch = {}};
  note.data.resize(bytes);
  fill(note.data.data());
  Add(std::move(note));
  return absl::OkStatus();
}

absl::Status WaitingSpace::Get(uint64_t address, uint64_t bytes,
                               absl::FunctionRef<bool(const uint8_t*)> take) {
  std::vector<uint8_t> waiting;
  const uint8_t* data = nullptr;
  if (awake_) {
    const auto got = remote_->Get(address, bytes);
    if (!got.ok()) return got.status();
    data = got->data();
  } else {
    waiting.resize(bytes);
    const auto& piece = pieces_[address / kPiece * kPiece];
    if (piece != nullptr) piece->Read(address % kPiece, waiting.data(), bytes);
    data = waiting.data();
  }
  return take(data) ? absl::OkStatus()
                    : absl::ResourceExhaustedError("the host has no memory left for its results");
}

absl::Status WaitingSpace::Copy(uint64_t to, uint64_t from, uint64_t bytes) {
  if (awake_) return remote_->Copy(to, from, bytes);
  Add({.kind = Note::Kind::kCopy,
       .address = to,
       .from = from,
       .bytes = bytes,
       .data = {},
       .launch = {}});
  return absl::OkStatus();
}

absl::Status WaitingSpace::Fill(uint64_t address, uint64_t bytes,
                                absl::Span<const uint8_t> pattern) {
  if (awake_) return remote_->Fill(address, bytes, pattern);
  Add({.kind = Note::Kind::kFill,
       .address = address,
       .bytes = bytes,
       .data = {pattern.begin(), pattern.end()},
       .launch = {}});
  return absl::OkStatus();
}

absl::Status WaitingSpace::Launch(const RemoteLaunch& launch) {
  if (awake_) return remote_->Launch(launch);
  Note note = {.kind = Note::Kind::kLaunch,
               .data = {launch.parameters.begin(), launch.parameters.end()},
               .launch = launch};
  note.launch.parameters = {};
  Add(std::move(note));
  return absl::OkStatus();
}

}  // namespace phantora
