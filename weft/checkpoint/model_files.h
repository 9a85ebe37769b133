// The names under which a model's weights lie in a folder, as Hugging Face has them: model.safetensors, or several files and
// model.safetensors.index.json, which says what is in which. Older models have pytorch_model.bin and its index, which we only read.
// Torch-free, so that hostile ones meet the sanitizers.
//
// Pure functions: any thread. Failure: Error(kInput) naming the file.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace weft::checkpoint {

inline constexpr std::string_view kModelFile = "model.safetensors";
inline constexpr std::string_view kModelIndex = "model.safetensors.index.json";
inline constexpr std::string_view kTorchModelFile = "pytorch_model.bin";
inline constexpr std::string_view kTorchModelIndex = "pytorch_model.bin.index.json";
inline constexpr uint64_t kMaxIndexBytes = 100'000'000;

// In order, each file as full as `max_bytes` allows; a larger tensor has one of its own. Numbers of the tensors, by file; one file
// at least.
std::vector<std::vector<size_t>> split_into_files(const std::vector<uint64_t>& tensor_bytes, uint64_t max_bytes);
// "model-00002-of-00005.safetensors"; "model.safetensors" of one.
std::string model_file_name(size_t number, size_t count);
// Whether it is one that model_file_name() gives, of any number and count.
bool is_model_file(std::string_view name);

std::string render_index(const std::map<std::string, std::string>& file_of, uint64_t total_bytes);
// The file of each tensor. Refuses whatever could lead out of the index's folder.
std::map<std::string, std::string> parse_index(std::string_view text, const std::string& path);

}  // namespace weft::checkpoint
