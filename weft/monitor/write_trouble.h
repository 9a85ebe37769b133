// A disk that takes nothing any more, said once a run: what a run tells about itself lies in dozens of files, and one sentence is enough
// for all of them.
//
//   try {
//     write_file(env, path, bytes);
//   } catch (const Error& error) {
//     tell_write_trouble(path, error);              // a warning the first time, then nothing
//   }
//
// Threads: any. Failure: none.
#pragma once

#include <string>

#include "weft/base/error.h"

namespace weft {

void tell_write_trouble(const std::string& path, const Error& error);
// A new run of this process begins.
void forget_write_trouble();

}  // namespace weft
