// A small network learns a curved surface: everything a training program of several ranks needs, on one page.
//
//   weft run -n 2 -- build/release/bin/mlp examples/mlp/ds_config.json
#include <ATen/ops/cos.h>
#include <ATen/ops/mse_loss.h>
#include <ATen/ops/sin.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/tensor.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/linear.h>
#include <weft/weft.h>

#include <cstdio>

namespace {

// Points of a grid, and the height of the surface there.
struct Surface {
  static constexpr int64_t kSide = 64;

  int64_t size() const { return kSide * kSide; }
  weft::data::Tensors get(int64_t index) const {
    const at::Tensor point = at::tensor({index / kSide, index % kSide}, at::kFloat) / kSide * 4 - 2;
    return {point, (at::sin(point[0] * 2) * at::cos(point[1])).view({1})};
  }
};

struct Mlp : torch::nn::Module {
  at::Tensor forward(const at::Tensor& points) { return last((second(first(points).tanh())).tanh()); }

  torch::nn::Linear first = register_module("first", torch::nn::Linear(2, 64));
  torch::nn::Linear second = register_module("second", torch::nn::Linear(64, 64));
  torch::nn::Linear last = register_module("last", torch::nn::Linear(64, 1));
};

void train(const std::string& config, int64_t num_epochs) {
  auto world = weft::init();
  auto model = std::make_shared<Mlp>();
  auto engine = weft::initialize(model, config, world);
  auto loader = engine.loader(std::make_shared<Surface>(), {.seed = 1});
  for (int64_t epoch = 0; epoch < num_epochs; ++epoch) {
    loader.set_epoch(epoch);
    double sum = 0;
    for (auto& batch : loader) {
      auto loss = at::mse_loss(model->forward(batch.data), batch.target);
      engine.backward(loss);
      engine.step();
      sum += loss.item<double>();
    }
    if (world.rank == 0) std::printf("epoch %ld: loss %.6f\n", epoch, sum / static_cast<double>(loader.size()));
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return std::fprintf(stderr, "usage: %s ds_config.json\n", *argv), 2;
  try {
    train(argv[1], 8);
  } catch (const weft::Error& error) {
    return std::fprintf(stderr, "%s\n", error.what()), error.exit_code();
  }
}
