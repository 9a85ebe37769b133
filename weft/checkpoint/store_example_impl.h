// For the tests of this room: a small model's tensors, saved by any number of ranks, with content that tells which save it
// came from.
#pragma once

#include <algorithm>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "weft/base/text.h"
#include "weft/checkpoint/save_step.h"
#include "weft/checkpoint/step_reader.h"
#include "weft/checkpoint/store.h"
#include "weft/checkpoint/store_writer.h"

namespace weft::checkpoint {

inline constexpr uint64_t kExampleBlockBytes = 4096;

// 10,240 bytes, 14 bytes, 4 bytes and none.
inline const StoredTensors kExampleTensors = {{"wte", {.dtype = "F32", .shape = {64, 40}}},
                                              {"h.bias", {.dtype = "BF16", .shape = {7}}},
                                              {"scale", {.dtype = "F32", .shape = {}}},
                                              {"none", {.dtype = "I64", .shape = {0, 3}}}};

// One save: the same step with another salt has other content everywhere.
struct ExampleSave {
  int64_t step = 1;
  int world = 2;
  int salt = 0;
  uint64_t block_bytes = kExampleBlockBytes;
};

inline std::string example_bytes(const ExampleSave& save, const std::string& tensor) {
  const auto& stored = kExampleTensors.at(tensor);
  std::string out(numel_of(stored) * width_of(stored), '\0');
  std::mt19937_64 generator(hash128(bytes_of(cat(tensor, " ", save.step, " ", save.salt))).low);
  for (size_t at = 0; at < out.size(); at += 8) {
    const uint64_t word = generator();
    std::memcpy(out.data() + at, &word, std::min<size_t>(8, out.size() - at));
  }
  return out;
}

// Rank r of `world` has the rth share of every tensor's elements.
inline std::pair<uint64_t, uint64_t> example_share(const std::string& tensor, int rank, int world) {
  const uint64_t numel = numel_of(kExampleTensors.at(tensor));
  const auto r = static_cast<uint64_t>(rank), n = static_cast<uint64_t>(world);
  return {numel * r / n, numel * (r + 1) / n};
}

// A rank's writer with all its bytes in, not yet finished.
inline std::unique_ptr<RankFileWriter> begin_example_rank(Env& env, const std::string& store, const ExampleSave& save,
                                                          int rank) {
  std::vector<SliceToSave> slices;
  std::string bytes;
  for (const auto& [name, tensor] : kExampleTensors) {
    const auto [begin, end] = example_share(name, rank, save.world);
    slices.push_back({.tensor = name, .dtype = tensor.dtype, .shape = tensor.shape, .begin = begin, .end = end});
    const uint64_t width = width_of(tensor);
    bytes += example_bytes(save, name).substr(begin * width, (end - begin) * width);
  }
  const WriterOptions options{.block_bytes = save.block_bytes, .num_buffers = 2};
  auto writer = std::make_unique<RankFileWriter>(env, store, save.step, rank, slices, options);
  writer->append(bytes_of(bytes));
  return writer;
}

inline Part write_example_rank(Env& env, const std::string& store, const ExampleSave& save, int rank) {
  return begin_example_rank(env, store, save, rank)->finish();
}

inline Manifest example_head(const ExampleSave& save) {
  return {.step = save.step,
          .world = save.world,
          .plan = "0123",
          .sections = {{"config", "{\"train_batch_size\": 4}"}, {"salt", cat(save.salt)}, {"random", "\x80\xFF\n\x01"}},
          .metrics = {{"loss", 1.0 / static_cast<double>(save.step)}}};
}

inline void save_example(Env& env, const std::string& store, const ExampleSave& save) {
  // All begin before the first finishes, as ranks side by side would.
  std::vector<std::unique_ptr<RankFileWriter>> writers;
  for (int rank = 0; rank < save.world; ++rank) writers.push_back(begin_example_rank(env, store, save, rank));
  std::vector<Part> parts;
  for (const auto& writer : writers) parts.push_back(writer->finish());
  commit_step(env, store, example_head(save), parts);
}

// The same through the folder: what each rank does by itself.
inline SaveRequest example_request(const ExampleSave& save, int rank, const std::string& id = "a1") {
  SaveRequest out{.step = save.step,
                  .rank = rank,
                  .world = save.world,
                  .id = id,
                  .head = example_head(save),
                  .others_deadline_s = 30};
  for (const auto& [name, tensor] : kExampleTensors) {
    const auto [begin, end] = example_share(name, rank, save.world);
    out.slices.push_back({.tensor = name, .dtype = tensor.dtype, .shape = tensor.shape, .begin = begin, .end = end});
  }
  return out;
}

inline void save_example_rank(Env& env, const std::string& store, const ExampleSave& save, const SaveRequest& request) {
  save_step(env, store, request, [&](RankFileWriter& writer) {
    for (const auto& [name, tensor] : kExampleTensors) {
      const auto [begin, end] = example_share(name, request.rank, save.world);
      const uint64_t width = width_of(tensor);
      writer.append(bytes_of(example_bytes(save, name).substr(begin * width, (end - begin) * width)));
    }
  });
}

inline std::string read_whole(StepReader& reader, const std::string& tensor) {
  std::string out(example_bytes({}, tensor).size(), '\0');
  reader.read(tensor, 0, numel_of(kExampleTensors.at(tensor)), std::as_writable_bytes(std::span(out)));
  return out;
}

// Every tensor and section of the step is the given save's, and nobody else's.
inline bool holds_example(Env& env, const FoundStep& found, const ExampleSave& save) {
  StepReader reader(env, found.folder, found.manifest);
  return found.step == save.step && found.manifest.tensors == kExampleTensors &&
         found.manifest.sections == example_head(save).sections &&
         std::ranges::all_of(kExampleTensors, [&](const auto& entry) {
           return read_whole(reader, entry.first) == example_bytes(save, entry.first);
         });
}

}  // namespace weft::checkpoint
