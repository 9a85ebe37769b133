// Runs an optimizer over gradients from a file, for optim_vs_python_test.py to compare with torch's.
//
//   optim_steps CONFIG IN.safetensors OUT.safetensors GRAD_SCALE
//
// IN has "param" and "grad.0", "grad.1", ...: one update each. OUT gets "param", "copy" (bf16) and the optimizer's
// state.
#include <ATen/ops/zeros_like.h>

#include <cstdio>
#include <cstdlib>

#include "weft/base/error.h"
#include "weft/base/text.h"
#include "weft/checkpoint/safetensors.h"
#include "weft/config/reading.h"
#include "weft/optim/core/schedule_settings.h"
#include "weft/optim/optimizer.h"

namespace {

using namespace weft;  // NOLINT(google-build-using-namespace): a program of one page

void run(const std::string& config_path, const std::string& in, const std::string& out, double grad_scale) {
  const auto resolved = config::read_config(config::load_document(Env::posix(), config_path), {}).resolved;
  const auto file = checkpoint::read_safetensors(Env::posix(), in);
  const at::Tensor param = file.tensors.at("param"), copy = at::zeros_like(param, at::kBFloat16);
  const at::Tensor first = file.tensors.at("grad.0");
  optim::Optimizer optimizer({{optim::read_optimizer(resolved.optimizer), {{"s", param, first, copy}}}});
  const optim::Schedule schedule = optim::read_schedule(resolved.scheduler);
  for (int i = 0; file.tensors.contains(cat("grad.", i)); ++i) {
    optimizer.set_grad(0, 0, file.tensors.at(cat("grad.", i)));
    optimizer.follow(schedule);
    optimizer.step(grad_scale);
  }
  checkpoint::NamedTensors result = optimizer.state();
  result.emplace_back("param", param);
  result.emplace_back("copy", copy);
  checkpoint::write_safetensors(Env::posix(), out, result);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5) return 2;
  try {
    run(argv[1], argv[2], argv[3], std::strtod(argv[4], nullptr));
  } catch (const Error& error) {
    std::fputs(error.what(), stderr);
    return error.exit_code();
  }
  return 0;
}
