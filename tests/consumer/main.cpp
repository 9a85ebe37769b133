// What a user's first program touches: the version, an error, a hash, a loss scale, a tensor. Prints "consumer ok" when all of it works.
#include <ATen/ATen.h>
#include <weft/weft.h>

#include <cstdio>
#include <span>
#include <string>
#include <string_view>

namespace {

bool error_tells_its_title() {
  try {
    throw weft::Error(weft::ErrorKind::kInput, {.title = "nothing is wrong", .what = "", .where = "", .fix = "smile"});
  } catch (const weft::Error& error) {
    return error.exit_code() == 2 && std::string_view(error.what()).find("nothing is wrong") != std::string_view::npos;
  }
}

// XXH3-128 of these four letters, as `printf weft | xxh128sum` prints it.
bool hash_is_the_published_one() {
  constexpr std::string_view kText = "weft";
  constexpr std::string_view kPrinted = "69aeedc904d9a734126c4f6354db18ad";
  return weft::to_hex(weft::hash128(std::as_bytes(std::span(kText)))) == kPrinted;
}

// fp16 in a loop of one's own, without an engine.
bool loss_scale_comes_down() {
  weft::optim::LossScaler scaler({.initial_scale = 1024, .hysteresis = 1});
  return scaler.update(true) == weft::optim::LossScaler::Outcome::kSkipped && scaler.scale() == 512;
}

bool tensors_add_up() { return at::ones({2, 2}).sum().item<double>() == 4.0; }

}  // namespace

int main() {
  std::printf("weft %s\n", weft::kVersion);
  if (!error_tells_its_title() || !hash_is_the_published_one() || !loss_scale_comes_down() || !tensors_add_up())
    return 1;
  std::puts("consumer ok");
  return 0;
}
