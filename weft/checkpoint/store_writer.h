// Saves a step: every rank writes files of its own, side by side; then one rank, any of them, commits. How the parts
// travel to that rank is the caller's affair (render_part and parse_part make text of them).
//
//   RankFileWriter writer(env, "ckpt", step, rank, {{.tensor = "wte", .dtype = "F32", .shape = {8, 4}, .begin = 0, .end = 16}});
//   writer.append(bytes);                                          // the slices' elements, one after the other
//   const Part part = writer.finish();                             // durable, and not yet counting
//   ...                                                            // gather the parts
//   commit_step(env, "ckpt", {.step = step, .world = 2}, parts);   // on one rank: from here on it counts
//
// Until commit_step has renamed the folder, every reader and every crash sees the steps that were there before.
//
// Ownership: the caller holds the StoreLock. Threads: a writer belongs to one thread; ranks write side by side, commit_step
// comes when all of them have finished. Failure: IoError or Error; what was committed before is intact. A writer that threw
// is dead; the step can be tried again from the start.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "weft/base/aio.h"
#include "weft/base/env.h"
#include "weft/checkpoint/direct_io.h"
#include "weft/checkpoint/manifest.h"

namespace weft::checkpoint {

// Elements [begin, end) of a tensor, taken as flat, that a rank has.
struct SliceToSave {
  std::string tensor = {};
  std::string dtype = {};
  std::vector<int64_t> shape = {};  // of the whole tensor
  uint64_t begin = 0;
  uint64_t end = 0;
};

struct WriterOptions {
  int part = 0;  // which of the rank's files
  uint64_t block_bytes = kBlockBytes;
  // Blocks in memory: the next is filled and hashed while the others are on their way to the disk.
  int num_buffers = 8;
};

class RankFileWriter {
 public:
  // Empty slices may be given and are left out.
  RankFileWriter(Env& env, const std::string& store, int64_t step, int rank, const std::vector<SliceToSave>& slices,
                 const WriterOptions& options = {});

  // The next bytes of the slices, in pieces of any size. Requires: no more than there are.
  void append(std::span<const std::byte> bytes);
  // Requires: all bytes of all slices have been appended. Afterwards the file is durable.
  Part finish();

 private:
  // One block, aligned as direct writes want it.
  struct Buffer {
    AlignedBytes bytes;
    size_t used = 0;
    uint64_t offset = 0;  // in the file, once it is on its way
    bool is_direct = false;
    std::optional<AsyncIo::Ticket> ticket = {};
    std::span<const std::byte> content() const { return {bytes.get(), used}; }
  };

  void send_block();
  void wait_for(Buffer& buffer);
  void drop_others();
  void use_page_cache();
  void start_disk();

  Env& env_;
  std::string folder_;
  Part part_;
  uint64_t appended_bytes_ = 0;
  bool is_direct_ = false;      // past the page cache
  uint64_t written_bytes_ = 0;  // that the operating system has
  uint64_t started_bytes_ = 0;  // of those, what the disk was told to begin with
  size_t at_ = 0;               // the buffer being filled
  std::unique_ptr<File> file_;
  std::vector<Buffer> buffers_;
  std::unique_ptr<AsyncIo> io_;  // last: its operations end before buffers and file go
};

// Makes the step count: manifest, the folder's final name, the pointer. `head` is the manifest without tensors and files.
// A step of that number that is there already is replaced.
void commit_step(Env& env, const std::string& store, Manifest head, std::span<const Part> parts);
// The same where hosts have disks of their own: all commit one manifest (merge_parts), each with the files it has.
void commit_manifest(Env& env, const std::string& store, const Manifest& manifest,
                     const std::function<bool(const StoredFile&)>& is_here);

// Removes what crashes and failures have left, but for the files of a step that ranks are writing now.
void sweep_store(Env& env, const std::string& store, std::optional<int64_t> step_in_flight);

// Takes a step's folder out of the store: away under another name first, so that no crash leaves half of it.
void discard_folder(Env& env, const std::string& store, const std::string& folder_name);

}  // namespace weft::checkpoint
