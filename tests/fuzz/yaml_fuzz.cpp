// Any bytes: the YAML reader, and what looks for the config in a training YAML, return a tree or throw ReadError.
#include <cstdint>
#include <string>

#include "tests/fuzz/check_tree.h"
#include "weft/config/document.h"

using namespace weft::config;  // NOLINT(google-build-using-namespace): a program of one function

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  try {
    const auto source = checked_source("fuzz.yaml", text);
    const Document document = parse_document(source);
    weft::fuzz::check_spans(*source, document.training);
    weft::fuzz::check_spans(*source, document.root);
    to_json(document.root);
  } catch (const ReadError& error) {
    weft::fuzz::check_error(error);
  }
  return 0;
}
