// Scalars as DeepSpeed's csv_monitor lays them out: a file for each tag, "Train_Samples_lr.csv", of lines "samples,value"
// below a header "step,lr".
//
//   CsvScalars csv(Env::posix(), "csv/gpt2", resumed);
//   csv.add(scalars_of(metrics));
//
// As there, a run adds to the files it finds, below a header of its own. A resumed run goes on where the last one is: rows
// that will be made again are cut off, and so is one that a crash left torn. A file that holds something else is left alone.
//
// Threads: one owner. Failure: the constructor throws IoError. After that nothing throws: a file that holds something else is
// left out, with a warning; while the disk takes no rows they are left out, which is said once a run (write_trouble.h).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "weft/base/env.h"
#include "weft/monitor/append_file.h"
#include "weft/monitor/scalars.h"

namespace weft {

class CsvScalars {
 public:
  // Makes the folder where there is none.
  CsvScalars(Env& env, const std::string& folder, bool resumed);

  void add(const StepScalars& scalars);

  const std::string& folder() const { return folder_; }
  uint64_t num_left_out() const { return num_left_out_; }

 private:
  struct TagFile {
    std::optional<AppendFile> file;  // nothing: could not be opened
    std::string due;                 // a header that is not there yet
  };
  TagFile& file_of(const std::string& tag, int64_t first_x);
  TagFile open(const std::string& tag, int64_t first_x);

  Env& env_;
  const std::string folder_;
  const bool resumed_;
  std::map<std::string, TagFile> files_;  // by tag
  uint64_t num_left_out_ = 0;
};

}  // namespace weft
