// Any bytes as a file of torch.save, as the pickle in one, and as the files of a DeepSpeed checkpoint: an Error, or values and tensors that
// lie inside of the file and can be read. Nothing is ever run, so there is nothing else to find.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "weft/base/crash_env.h"
#include "weft/base/error.h"
#include "weft/checkpoint/foreign/deepspeed.h"
#include "weft/checkpoint/foreign/torch_file.h"
#include "weft/checkpoint/foreign/torch_globals.h"
#include "weft/checkpoint/foreign/torch_save_maker.h"

using namespace weft::checkpoint::foreign;  // NOLINT(google-build-using-namespace): a program of one function

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace {

template <typename Read>
void expect_error_or_good(const Read& read) {
  try {
    read();
  } catch (const weft::Error& error) {
    if (error.kind() != weft::ErrorKind::kInput) std::abort();
  }
}

// Every value once: they may contain themselves.
std::vector<const Value*> all_in(const Value& root) {
  std::vector<const Value*> out = {&root};
  std::set<const Value*> seen = {&root};
  const auto add = [&](const Value* value) {
    if (value != nullptr && seen.insert(value).second) out.push_back(value);
  };
  for (size_t i = 0; i < out.size(); ++i) {
    for (const Value* item : out[i]->items) add(item);
    for (const Value* part : {out[i]->of, out[i]->args, out[i]->state}) add(part);
  }
  return out;
}

void read_some(TorchFile& file, const TorchTensor& tensor) {
  const uint64_t count = tensor.num_elements();
  if (tensor.width == 0 || count == 0) return;
  std::vector<std::byte> one(tensor.width);
  for (const uint64_t first : {uint64_t{0}, count / 2, count - 1}) file.read(tensor, first, one);
  std::vector<std::byte> several(tensor.width * (count < 100 ? count : 100));
  file.read(tensor, 0, several);
}

// One file for a rank's model and its optimizer, of one rank and of two.
void read_as_deepspeed(const std::shared_ptr<TorchFile>& file) {
  for (const auto& [models, optims] : {std::pair<size_t, size_t>(1, 0), {1, 1}, {2, 2}}) {
    expect_error_or_good([&] {
      const DeepSpeedCheckpoint found =
          read_deepspeed({.folder = "f", .models = std::vector(models, file), .optims = std::vector(optims, file)});
      for (const DeepSpeedTensor& tensor : found.tensors) {
        if (tensor.elements.empty()) continue;
        std::vector<std::byte> some(tensor.elements.width() * std::min<uint64_t>(tensor.elements.num_elements(), 100));
        tensor.elements.read(0, some);
      }
    });
  }
}

// A file that is whole but for its pickle, so that the fuzzer need not find out how a zip file is put together.
std::string wrapped(std::string_view pickle) {
  return test::torch_file(std::string(pickle), {{"0", std::string(64, 'x')}, {"1", "12345678"}});
}

}  // namespace

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  expect_error_or_good([&] {
    const Pickle pickle(text, "fuzz", is_known_global);
    for (const Value* value : all_in(pickle.root())) described(*value);
  });
  for (const std::string& bytes : {std::string(text), wrapped(text)}) {
    expect_error_or_good([&] {
      weft::CrashEnv env;
      write_file(env, "f", weft::bytes_of(bytes));
      const auto file = std::make_shared<TorchFile>(env, "f");
      for (const Value* value : all_in(file->root())) {
        expect_error_or_good([&] {
          if (const auto tensor = file->tensor(*value, "t")) read_some(*file, *tensor);
        });
      }
      read_as_deepspeed(file);
    });
  }
  return 0;
}
