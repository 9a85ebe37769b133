// Scalars as TensorBoard reads them: one event file a run, made of the few fields that a curve needs.
//
//   EventFile events(Env::posix(), "runs/gpt2", resumed);
//   events.add(scalars_of(metrics));
//
// Every run has a file of its own, events.out.tfevents.<time>.<host>.<pid>.<n>; nothing that is there is changed. The
// file of a resumed run opens with a session start at its first step, which has TensorBoard forget the points of earlier
// files from there on: those are being made again.
//
// On-disk: TFRecord frames (length, its checksum, bytes, their checksum; all little-endian) that hold Event messages of
// file version "brain.Event:2". Wrong bytes make TensorBoard stop reading without a word, so tests hold it to its own reader.
//
// Threads: one owner. Failure: the constructor throws IoError. After that nothing throws: while the disk takes no events
// they are left out (write_trouble.h).
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>

#include "weft/base/env.h"
#include "weft/monitor/append_file.h"
#include "weft/monitor/scalars.h"

namespace weft {

class EventFile {
 public:
  // Makes the folder where there is none.
  EventFile(Env& env, const std::string& folder, bool resumed);

  void add(const StepScalars& scalars);

  const std::string& path() const { return path_; }
  uint64_t num_left_out() const { return num_left_out_; }

 private:
  // The record that every file opens with, and the session start where one is due.
  std::string opening(int64_t first_x) const;

  const std::string path_;
  const bool resumed_;
  AppendFile file_;
  std::set<std::string> described_;  // tags of which the file says what they are
  uint64_t num_left_out_ = 0;
};

}  // namespace weft
