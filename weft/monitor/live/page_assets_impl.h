// The live page, whole: web/live and uPlot joined by cmake/embed_page.cmake when weft is built.
#pragma once

#include <string_view>

namespace weft::detail {

// "__NONCE__" stands where the nonce of the answer goes.
extern const std::string_view kLivePage;

}  // namespace weft::detail
