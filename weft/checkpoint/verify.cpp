#include "weft/checkpoint/verify.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "weft/base/log.h"
#include "weft/base/text.h"
#include "weft/checkpoint/blocks.h"
#include "weft/checkpoint/safetensors_header.h"
#include "weft/checkpoint/store_names.h"

namespace weft::checkpoint {
namespace {

// Other programs go by the header, we by the manifest: both must mean the same bytes.
void check_header(File& file, const StoredFile& stored, const Manifest& manifest) {
  std::string text(8, '\0');
  text.resize(file.read_at(0, std::as_writable_bytes(std::span(text))));
  const uint64_t length = parse_header_length(text, stored.bytes, file.path());
  text.resize(length);
  text.resize(file.read_at(8, std::as_writable_bytes(std::span(text))));
  const auto header = parse_header(text, stored.bytes, file.path());
  const auto expected = header_of(stored, manifest.tensors);
  const auto differs = [&](const TensorEntry& a, const TensorEntry& b) {
    return a.name != b.name || a.dtype != b.dtype || a.shape != b.shape || a.begin != b.begin || a.end != b.end;
  };
  if (std::ranges::equal(header.tensors, expected.tensors, std::not_fn(differs))) return;
  throw Error(ErrorKind::kInput,
              {.title = "the checkpoint is damaged",
               .what = cat("the header of file '", stored.name, "' lists other tensors than the manifest"),
               .where = file.path(),
               .fix = "use another step"});
}

template <typename Work>
bool holds(std::vector<Error>& damage, const Work& work) {
  try {
    work();
    return true;
  } catch (const Error& error) {
    damage.push_back(error);
    return false;
  }
}

void verify_blocks(File& file, const StoredFile& stored, std::vector<Error>& damage,
                   const std::function<void(uint64_t)>& passed) {
  std::vector<std::byte> bytes;
  for (uint64_t block = 0; block < stored.blocks.size(); ++block) {
    bytes.resize(stored.size_of_block(block));
    holds(damage, [&] { read_block(file, stored, block, bytes); });
    passed(bytes.size());
  }
}

}  // namespace

std::vector<Error> verify_files(Env& env, const std::string& folder, const Manifest& manifest,
                                const VerifyProgress& progress) {
  std::vector<Error> damage;
  uint64_t done = 0, total = 0;
  for (const auto& stored : manifest.files) total += stored.bytes;
  const auto passed = [&](uint64_t bytes) {
    done += bytes;
    if (progress) progress(done, total);
  };
  for (const auto& stored : manifest.files) {
    const std::string path = cat(folder, "/", stored.name);
    if (!stored.host.empty() && !env.stat(path)) {
      log_info("not looked at: ", stored.name, " is on host ", stored.host);
      passed(stored.bytes);
      continue;
    }
    holds(damage, [&] {
      const auto file = open_stored(env, path, stored.bytes);
      const size_t before = damage.size();
      verify_blocks(*file, stored, damage, passed);
      if (damage.size() == before) check_header(*file, stored, manifest);
    });
  }
  return damage;
}

std::vector<Error> verify_step(Env& env, const StepPlace& place, const VerifyProgress& progress) {
  std::vector<Error> damage;
  Manifest manifest;
  if (holds(damage, [&] { manifest = open_step(env, place); }))
    return verify_files(env, place.folder, manifest, progress);
  return damage;
}

}  // namespace weft::checkpoint
