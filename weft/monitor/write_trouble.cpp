#include "weft/monitor/write_trouble.h"

#include <atomic>

#include "weft/base/log.h"

namespace weft {
namespace {

std::atomic<bool> has_told_of_trouble = false;

}  // namespace

void tell_write_trouble(const std::string& path, const Error& error) {
  if (has_told_of_trouble.exchange(true)) return;
  const ErrorText& text = error.text();
  log_warn("cannot write ", path, ": ", text.what.empty() ? text.title : text.what,
           ". What the run tells about itself is left out until it can be written; training goes on.");
}

void forget_write_trouble() { has_told_of_trouble = false; }

}  // namespace weft
