// When a file was last written. Clocks of two machines may be hours apart, so what a run says of the time is never compared with the time
// of whoever looks at it: that is compared with the time of the file, or with what has changed between two looks.
//
// Free functions any thread, SeenChange one owner. Failure: none; what is not known is 0.
#pragma once

#include <string>

#include "weft/base/env.h"

namespace weft {

// Seconds since 1970, as the file system has it.
double modified_unix_s(const File& file);
double modified_unix_s(Env& env, const std::string& path);

// The last change of a file by the clock of its reader, who looks again and again. The first look has only the file's own time, which a
// server of files with another clock may have set; one from the future counts as now.
class SeenChange {
 public:
  // `changed`: what was read differs from the last look.
  void look(double modified_unix_s, bool changed, double now_unix_s);
  // 0 before the first look.
  double at_unix_s() const { return at_s_; }

 private:
  double at_s_ = 0, modified_s_ = 0, looked_s_ = 0;
};

}  // namespace weft
