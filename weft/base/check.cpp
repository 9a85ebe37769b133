#include "weft/base/check.h"

#include "weft/base/error.h"
#include "weft/base/log.h"

namespace weft::detail {

void check_failed(const char* condition, const std::string& values, std::source_location where) {
  std::string place = cat(where.file_name(), ":", where.line(), " in ", where.function_name());
  if (log_rank() >= 0) place += cat(" (rank ", log_rank(), ")");
  throw Error(ErrorKind::kBug, {.title = cat("weft broke its own rule: ", condition),
                                .what = values,
                                .where = std::move(place),
                                .fix = "this is a bug in weft; please report it with this message"});
}

}  // namespace weft::detail
