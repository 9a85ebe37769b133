#include "weft/cli/front/print_json.h"

#include <cstdio>
#include <nlohmann/json.hpp>

namespace weft::cli {

void print_json(const nlohmann::ordered_json& json) {
  std::printf("%s\n", json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace).c_str());
}

}  // namespace weft::cli
