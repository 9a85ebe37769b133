#include "weft/monitor/append_file.h"

#include "weft/base/error.h"
#include "weft/base/log.h"

namespace weft {

bool AppendFile::put(std::string_view bytes) {
  try {
    if (must_trim_) file_->truncate(offset_);
    must_trim_ = true;
    file_->write_at(offset_, bytes_of(bytes));
  } catch (const Error& error) {
    if (!has_warned_)
      log_warn("cannot write ", file_->path(), ": ", error.text().what,
               ". Its rows are left out until it can be; training goes on.");
    has_warned_ = true;
    return false;
  }
  must_trim_ = false;
  offset_ += bytes.size();
  return true;
}

}  // namespace weft
