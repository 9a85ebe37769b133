// Any bytes as a checkpoint's manifest, with and without the seal that damage would have broken: an Error, or a manifest that
// reads back as itself and whose reads add up to every tensor.
#include <cstdint>
#include <cstdlib>
#include <string>

#include "weft/base/error.h"
#include "weft/checkpoint/manifest.h"
#include "weft/checkpoint/step_reader.h"

using namespace weft::checkpoint;  // NOLINT(google-build-using-namespace): a program of one function

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace {

void require(bool holds) {
  if (!holds) std::abort();
}

template <typename Read>
void expect_error_or_good(const Read& read) {
  try {
    read();
  } catch (const weft::Error& error) {
    require(error.kind() == weft::ErrorKind::kInput);
  }
}

void check_reads(const Manifest& manifest) {
  const StepReader reader(weft::Env::posix(), "nowhere", manifest);
  for (const auto& [name, tensor] : manifest.tensors) {
    uint64_t bytes = 0;
    for (const auto& read : reader.plan_reads(name, 0, numel_of(tensor))) {
      require(read.into == bytes && read.offset + read.bytes <= manifest.find_file(read.file)->bytes);
      bytes += read.bytes;
    }
    require(bytes == numel_of(tensor) * width_of(tensor));
  }
}

}  // namespace

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  expect_error_or_good([&] {
    const Manifest manifest = parse_manifest(seal_manifest(text), "fuzz");
    require(parse_manifest(render_manifest(manifest), "fuzz") == manifest);
    check_reads(manifest);
  });
  expect_error_or_good([&] {
    const Part part = parse_part(text, "fuzz");
    require(parse_part(render_part(part), "fuzz") == part);
  });
  expect_error_or_good([&] { parse_manifest(text, "fuzz"); });
  return 0;
}
