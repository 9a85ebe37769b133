#include "weft/matmul/fast_products.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/addmm_cpu_dispatch.h>
#include <ATen/ops/empty_cpu_dispatch.h>
#include <ATen/ops/mm_cpu_dispatch.h>
#include <ATen/record_function.h>
#include <c10/util/Exception.h>
#include <torch/library.h>

#include <atomic>
#include <optional>

#include "weft/matmul/choices.h"

namespace weft::matmul {
namespace {

std::atomic<int> num_alive = 0;
// Multiplications below which looking a shape up and packing cost what can be won.
constexpr int64_t kLeastWork = 1 << 17;

// What is done inside is no operator of the model, whichever way it is done: whoever watches those, as the gate does, would see ranks part
// where their choices do.
bool is_watched_inside() { return num_alive.load(std::memory_order_relaxed) == 0 && at::isRecordFunctionEnabled(); }

// Of its dimensions; a product hands them on. Older torches have such names, 2.13 has none.
template <typename AnyTensor>
bool has_names(const AnyTensor& tensor) {
  if constexpr (requires { tensor.has_names(); }) return tensor.has_names();
  return false;
}

// A matrix whose rows or columns lie side by side, in memory of its own kind.
bool is_plain(const at::Tensor& tensor) {
  if (tensor.dim() != 2 || tensor.scalar_type() != at::kFloat || tensor.layout() != at::kStrided) return false;
  if (!tensor.device().is_cpu() || tensor.is_neg() || has_names(tensor)) return false;
  const int64_t rows = tensor.size(0), columns = tensor.size(1);
  const int64_t down = tensor.stride(0), across = tensor.stride(1);
  return rows > 1 && columns > 1 && ((across == 1 && down >= columns) || (down == 1 && across >= rows));
}

Matrix matrix_of(const at::Tensor& tensor) {
  return {tensor.const_data_ptr<float>(), tensor.stride(0), tensor.stride(1)};
}

// Without c; none: torch's own way.
std::optional<Product> product_of(const at::Tensor& a, const at::Tensor& b, bool adds) {
  if (num_alive.load(std::memory_order_relaxed) == 0 || fast_kernel() == nullptr) return {};
  if (!is_plain(a) || !is_plain(b) || a.size(1) != b.size(0)) return {};
  Product product{.rows = a.size(0), .columns = b.size(1), .inner = a.size(1)};
  if (product.rows * product.columns < kLeastWork / product.inner) return {};
  product.a = matrix_of(a);
  product.b = matrix_of(b);
  product.c_row_stride = product.columns;
  product.adds = adds;
  if (!Choices::of_process().is_ours(shape_of(product))) return {};
  return product;
}

// What torch would allocate.
at::Tensor room_for(const Product& product, const at::Tensor& like) {
  return at::cpu::empty({product.rows, product.columns}, like.options());
}

void multiply_into(Product& product, const at::Tensor& c) {
  product.c = c.mutable_data_ptr<float>();
  multiply(product, *fast_kernel());
}

bool is_room(const at::Tensor& out, const Product& product) {
  return is_plain(out) && out.is_contiguous() && out.size(0) == product.rows && out.size(1) == product.columns;
}

at::Tensor mm(const at::Tensor& a, const at::Tensor& b) {
  const at::RecordFunctionGuard inside(is_watched_inside());
  auto product = product_of(a, b, /*adds=*/false);
  if (!product) return at::cpu::mm(a, b);
  at::Tensor out = room_for(*product, a);
  multiply_into(*product, out);
  return out;
}

at::Tensor& mm_out(const at::Tensor& a, const at::Tensor& b, at::Tensor& out) {
  const at::RecordFunctionGuard inside(is_watched_inside());
  auto product = product_of(a, b, /*adds=*/false);
  if (!product || !is_room(out, *product) || out.is_alias_of(a) || out.is_alias_of(b))
    return at::cpu::mm_out(out, a, b);
  multiply_into(*product, out);
  return out;
}

bool is_one(const at::Scalar& factor) { return !factor.isComplex() && factor.toDouble() == 1; }

bool is_plain_sum(const at::Tensor& start, const at::Scalar& beta, const at::Scalar& alpha) {
  return start.scalar_type() == at::kFloat && start.device().is_cpu() && start.layout() == at::kStrided &&
         start.dim() <= 2 && is_one(beta) && is_one(alpha);
}

bool fits(const at::Tensor& start, const Product& product) {
  const auto along = [&](int64_t from_end, int64_t size) {
    return start.dim() < from_end || start.size(-from_end) == size || start.size(-from_end) == 1;
  };
  return along(1, product.columns) && along(2, product.rows);
}

at::Tensor addmm(const at::Tensor& start, const at::Tensor& a, const at::Tensor& b, const at::Scalar& beta,
                 const at::Scalar& alpha) {
  const at::RecordFunctionGuard inside(is_watched_inside());
  auto product = is_plain_sum(start, beta, alpha) ? product_of(a, b, /*adds=*/true) : std::nullopt;
  if (!product || !fits(start, *product)) return at::cpu::addmm(start, a, b, beta, alpha);
  at::Tensor out = room_for(*product, a);
  out.copy_(start);
  multiply_into(*product, out);
  return out;
}

at::Tensor& addmm_out(const at::Tensor& start, const at::Tensor& a, const at::Tensor& b, const at::Scalar& beta,
                      const at::Scalar& alpha, at::Tensor& out) {
  const at::RecordFunctionGuard inside(is_watched_inside());
  auto product = is_plain_sum(start, beta, alpha) ? product_of(a, b, /*adds=*/true) : std::nullopt;
  if (!product || !fits(start, *product) || !is_room(out, *product) || out.is_alias_of(a) || out.is_alias_of(b))
    return at::cpu::addmm_out(out, start, a, b, beta, alpha);
  if (!out.is_same(start)) out.copy_(start);
  multiply_into(*product, out);
  return out;
}

// torch warns of operators that are registered a second time, which is what happens here.
class Silence final : public c10::WarningHandler {
 public:
  void process(const c10::Warning& /*warning*/) override {}
};

void put_in_place(torch::Library& library) {
  Silence silence;
  const c10::WarningUtils::WarningHandlerGuard guard(&silence);
  library.impl("mm", TORCH_FN(mm));
  library.impl("mm.out", TORCH_FN(mm_out));
  library.impl("addmm", TORCH_FN(addmm));
  library.impl("addmm.out", TORCH_FN(addmm_out));
}

TORCH_LIBRARY_IMPL(aten, CPU, library) { put_in_place(library); }

}  // namespace

FastProducts::FastProducts() { num_alive.fetch_add(1); }
FastProducts::~FastProducts() { num_alive.fetch_sub(1); }

}  // namespace weft::matmul
