// Calls into each library once: what was found is what is linked, and what is linked can be loaded.
#define XXH_INLINE_ALL  // as weft reads it: only the header is used
#include <liburing.h>
#include <xxhash.h>
#include <yaml.h>

#include <cstdio>

bool parses();
bool logs();
bool serves();

namespace {

bool reads_yaml() {
  yaml_parser_t parser;
  const bool made = yaml_parser_initialize(&parser) == 1;
  yaml_parser_delete(&parser);
  return made;
}

bool has_uring_calls() {
  io_uring_sqe entry = {};
  io_uring_prep_nop(&entry);
  io_uring_free_probe(nullptr);
  return entry.opcode == IORING_OP_NOP;
}

}  // namespace

int main() {
  const bool all = reads_yaml() && has_uring_calls() && XXH3_64bits("weft", 4) != 0 && parses() && logs() && serves();
  std::puts(all ? "probe ok" : "a library answered wrongly");
  return all ? 0 : 1;
}
