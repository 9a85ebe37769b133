// The folder a run leaves behind: runs/<name>/ with result.json and report.html. Made before training starts, so that a missing
// right or a full disk is known at once and not after an hour.
#pragma once

#include <string>

#include "weft/base/env.h"

namespace weft::cli {

class RunFolder {
 public:
  // Creates the folder; when a name was given and is taken, and when two runs start in one second, a number is added.
  RunFolder(Env& env, const std::string& runs, const std::string& name);

  const std::string& path() const { return path_; }
  std::string file(const std::string& name) const { return path_ + "/" + name; }
  void write(const std::string& name, const std::string& text) const;

 private:
  Env& env_;
  std::string path_;
};

}  // namespace weft::cli
