#include "weft/monitor/append_file.h"

#include "weft/base/error.h"
#include "weft/monitor/write_trouble.h"

namespace weft {

bool AppendFile::put(std::string_view bytes) {
  try {
    if (must_trim_) file_->truncate(offset_);
    must_trim_ = true;
    file_->write_at(offset_, bytes_of(bytes));
  } catch (const Error& error) {
    tell_write_trouble(file_->path(), error);
    return false;
  }
  must_trim_ = false;
  offset_ += bytes.size();
  return true;
}

}  // namespace weft
