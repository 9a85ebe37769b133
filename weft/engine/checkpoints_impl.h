// What the files that save and load a training share. For this room.
#pragma once

#include <ATen/ops/empty.h>

#include <exception>
#include <string>
#include <utility>
#include <vector>

#include "weft/base/error.h"
#include "weft/base/text.h"
#include "weft/checkpoint/live_slices.h"
#include "weft/engine/agree.h"

namespace weft::engine {

// Whole tensors, as slices.
inline checkpoint::LiveSlice whole(std::string name, const at::Tensor& tensor) {
  return {.tensor = std::move(name), .shape = tensor.sizes().vec(), .begin = 0, .values = tensor};
}

inline at::Tensor read_whole(checkpoint::StepReader& reader, const std::string& name, at::ScalarType type) {
  const at::Tensor out = at::empty(reader.manifest().tensors.at(name).shape, type);
  read_slices(reader, {whole(name, out)});
  return out;
}

inline constexpr char kBetween = '\x1f';  // in no text of ours

// "what it was" and the rest of an Error, so that another rank can throw it too.
inline std::string pack(const Error& error) {
  const ErrorText& text = error.text();
  return cat(static_cast<int>(error.kind()), kBetween, text.title, kBetween, text.what, kBetween, text.where, kBetween,
             text.fix);
}

inline Error unpack(const std::string& packed, int rank) {
  std::vector<std::string> parts = split(packed, kBetween);
  parts.resize(5);
  const auto kind = parts[0] == "0" ? ErrorKind::kInput : parts[0] == "1" ? ErrorKind::kEnvironment : ErrorKind::kBug;
  return {kind, {.title = parts[1], .what = parts[2], .where = cat(parts[3], " (rank ", rank, ")"), .fix = parts[4]}};
}

inline Error as_error(const std::exception& error) {
  return {ErrorKind::kEnvironment, {.title = "the checkpoint could not be saved", .what = error.what()}};
}

}  // namespace weft::engine
