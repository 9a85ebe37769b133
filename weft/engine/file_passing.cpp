#include "weft/engine/file_passing.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <memory>
#include <span>

#include "weft/base/error.h"
#include "weft/base/text.h"
#include "weft/checkpoint/kill_points.h"
#include "weft/checkpoint/store_names.h"

namespace weft::engine {
namespace {

// Large enough for a network's speed, small beside what a rank has anyway.
constexpr uint64_t kPieceBytes = 4 << 20;

// A piece is its bytes and one more, which says whether they are good.
constexpr uint8_t kGood = 1;

at::Tensor piece_of(uint64_t bytes) { return at::empty({static_cast<int64_t>(bytes) + 1}, at::kByte); }

std::span<std::byte> content_of(const at::Tensor& piece) {
  return {static_cast<std::byte*>(piece.mutable_data_ptr()), static_cast<size_t>(piece.numel() - 1)};
}

uint8_t& mark_of(const at::Tensor& piece) { return piece.mutable_data_ptr<uint8_t>()[piece.numel() - 1]; }

template <typename Work>
std::string problem_of(const Work& work) {
  try {
    work();
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

}  // namespace

Passed send_file(comm::Group& group, c10::Device device, Env& env, const PassedFile& file, int to) {
  std::unique_ptr<File> source;
  std::string problem = problem_of([&] { source = checkpoint::open_stored(env, file.path, file.bytes); });
  for (uint64_t at = 0; at < file.bytes; at += kPieceBytes) {
    const at::Tensor piece = piece_of(std::min(kPieceBytes, file.bytes - at));
    if (problem.empty()) problem = problem_of([&] { source->read_at(at, content_of(piece)); });
    mark_of(piece) = problem.empty() ? kGood : 0;
    group.send(piece.to(device), to);
    if (!problem.empty()) break;
  }
  return {.whole = problem.empty(), .problem = problem};
}

Passed receive_file(comm::Group& group, c10::Device device, Env& env, const PassedFile& file, int from) {
  std::unique_ptr<File> target;
  std::string problem = problem_of([&] { target = checkpoint::create_stored(env, file.path); });
  for (uint64_t at = 0; at < file.bytes; at += kPieceBytes) {
    const at::Tensor there = piece_of(std::min(kPieceBytes, file.bytes - at)).to(device);
    group.recv(there, from);
    const at::Tensor piece = there.cpu();
    if (mark_of(piece) != kGood) return {.whole = false};
    if (problem.empty()) problem = problem_of([&] { target->write_at(at, content_of(piece)); });
    if (at <= file.bytes / 2 && file.bytes / 2 < at + kPieceBytes) pass(checkpoint::KillPoint::kPassHalf);
  }
  if (problem.empty()) problem = problem_of([&] { target->sync(); });
  pass(checkpoint::KillPoint::kPassDone);
  return {.whole = problem.empty(), .problem = problem};
}

}  // namespace weft::engine
