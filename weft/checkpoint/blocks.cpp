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
  const size_t got = file.read_at(block * stored.block_bytes, into);
  if (got != into.size()) throw damaged(file, stored, block, cat("ends after ", got, " of ", into.size(), " bytes"));
  const Hash128 found = hash128(into), expected = stored.blocks[block];
  if (found != expected)
    throw damaged(file, stored, block, cat("has the hash ", to_hex(found), ", the manifest says ", to_hex(expected)));
}

}  // namespace weft::checkpoint
