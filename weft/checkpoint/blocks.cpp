#include "weft/checkpoint/blocks.h"

#include "weft/base/text.h"

namespace weft::checkpoint {
namespace {

Error damaged(const File& file, const StoredFile& stored, uint64_t block, const std::string& what) {
  return Error(ErrorKind::kInput, {.title = "the checkpoint is damaged",
                                   .what = cat("block ", block, " of ", stored.blocks.size(), " of file '", stored.name,
                                               "' ", what, "; it holds ", stored.tensors_in_block(block)),
                                   .where = cat(file.path(), " at byte ", block * stored.block_bytes),
                                   .fix = "use another step"});
}

}  // namespace

void read_block(File& file, const StoredFile& stored, uint64_t block, std::span<std::byte> into) {
  check_block(file, stored, block, into.first(file.read_at(block * stored.block_bytes, into)));
}

void check_block(const File& file, const StoredFile& stored, uint64_t block, std::span<const std::byte> got) {
  const uint64_t size = stored.size_of_block(block);
  if (got.size() != size) throw damaged(file, stored, block, cat("ends after ", got.size(), " of ", size, " bytes"));
  const Hash128 found = hash128(got), expected = stored.blocks[block];
  if (found != expected)
    throw damaged(file, stored, block, cat("has the hash ", to_hex(found), ", the manifest says ", to_hex(expected)));
}

}  // namespace weft::checkpoint
