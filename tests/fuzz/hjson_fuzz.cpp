// Any bytes: the HJSON reader returns a tree or throws ReadError, and what it prints it reads again as the same.
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>

#include "tests/fuzz/check_tree.h"
#include "weft/config/hjson.h"

using namespace weft::config;  // NOLINT(google-build-using-namespace): a program of one function

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  try {
    const auto source = checked_source("fuzz.json", text);
    const Value root = parse_hjson(source);
    weft::fuzz::check_spans(*source, root);
    const std::string printed = to_json(root);
    const Value again = parse_hjson(std::make_shared<const Source>("again.json", printed));
    if (to_json(again) != printed) std::abort();
  } catch (const ReadError& error) {
    weft::fuzz::check_error(error);
  }
  return 0;
}
