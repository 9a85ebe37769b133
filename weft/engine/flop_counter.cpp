#include "weft/engine/flop_counter.h"

#include <ATen/record_function.h>

#include <atomic>
#include <mutex>
#include <optional>
#include <utility>

#include "weft/base/check.h"
#include "weft/base/clock.h"
#include "weft/engine/module_flops.h"
#include "weft/engine/operator_flops.h"

namespace weft::engine {
namespace {

struct Counting {
  std::atomic<bool> is_on = false;
  std::atomic<bool> by_module = false;
  std::mutex mutex;  // of what follows
  FlopCount count;
  std::optional<ModuleFlops> modules;
  int64_t number = 0;  // of the count under way: operators that outlive the one before it do not count

  static Counting& it() {
    static Counting one;
    return one;
  }
};

// Operators under way on this thread that are counted. Autocast calls an operator again, with its arguments narrowed, out of itself:
// only the outer one counts.
thread_local int t_depth = 0;

struct UnderWay final : at::ObserverContext {
  bool is_counted = false;
  OperatorFlops flops;
  int64_t number = 0, started_ns = 0;
  ModuleFlops::Begun begun;
};

std::unique_ptr<UnderWay> begin_counted(const at::RecordFunction& function, FlopKind kind) {
  auto out = std::make_unique<UnderWay>();
  out->is_counted = true;
  if (t_depth++ == 0) out->flops = flops_before(kind, function.inputs());
  return out;
}

void begin_by_module(const at::RecordFunction& function, FlopKind kind, std::unique_ptr<UnderWay>& out) {
  Counting& counting = Counting::it();
  const std::scoped_lock lock(counting.mutex);
  if (!counting.modules) return;
  const auto begun = counting.modules->begin(function, kind, /*is_nested=*/t_depth > 1);
  if (!out && begun.copies < 0) return;
  if (!out) out = std::make_unique<UnderWay>();
  out->begun = begun;
  out->number = counting.number;
  out->started_ns = now_ns();
}

std::unique_ptr<at::ObserverContext> before_operator(const at::RecordFunction& function) {
  const FlopKind kind = flop_kind_of(function.name());
  std::unique_ptr<UnderWay> out;
  if (kind != FlopKind::kNone) out = begin_counted(function, kind);
  if (Counting::it().by_module) begin_by_module(function, kind, out);
  return out;
}

void after_operator(const at::RecordFunction& function, at::ObserverContext* context) {
  auto* const one = static_cast<UnderWay*>(context);
  if (one == nullptr) return;
  const int64_t ended_ns = one->started_ns > 0 ? now_ns() : 0;
  const bool is_outer = one->is_counted && --t_depth == 0;
  const int64_t flops = is_outer ? flops_after(one->flops, function.outputs()) : 0;
  Counting& counting = Counting::it();
  const std::scoped_lock lock(counting.mutex);
  if (counting.modules && one->number == counting.number)
    counting.modules->end(one->begun, function, flops, ended_ns - one->started_ns);
  if (!is_outer) return;
  counting.count.total += flops;
  counting.count.by_operator[function.name()] += flops;
  ++counting.count.calls[function.name()];
}

std::unique_ptr<at::ObserverContext> before_node(const at::RecordFunction& node) {
  Counting& counting = Counting::it();
  auto out = std::make_unique<UnderWay>();
  const std::scoped_lock lock(counting.mutex);
  if (counting.modules) counting.modules->begin_node(node);
  out->number = counting.number;
  return out;
}

void after_node(const at::RecordFunction& node, at::ObserverContext* context) {
  Counting& counting = Counting::it();
  const std::scoped_lock lock(counting.mutex);
  if (counting.modules && static_cast<UnderWay*>(context)->number == counting.number) counting.modules->end_node(node);
}

}  // namespace

FlopCounter::FlopCounter() : FlopCounter(nullptr) {}

FlopCounter::FlopCounter(const ModelTensors* model) {
  Counting& counting = Counting::it();
  WEFT_CHECK(!counting.is_on.exchange(true));
  {
    const std::scoped_lock lock(counting.mutex);
    counting.count = {};
    ++counting.number;
    if (model != nullptr) counting.modules.emplace(*model);
    counting.by_module = model != nullptr;
  }
  handle_ = at::addGlobalCallback(at::RecordFunctionCallback(&before_operator, &after_operator)
                                      .needsInputs(true)
                                      .needsOutputs(true)
                                      .scopes({at::RecordScope::FUNCTION}));
  if (model == nullptr) return;
  node_handle_ = at::addGlobalCallback(
      at::RecordFunctionCallback(&before_node, &after_node).scopes({at::RecordScope::BACKWARD_FUNCTION}));
}

FlopCounter::~FlopCounter() { end(); }

FlopCount FlopCounter::end() {
  if (handle_ == 0) return {};
  at::removeCallback(std::exchange(handle_, 0));
  if (node_handle_ != 0) at::removeCallback(std::exchange(node_handle_, 0));
  Counting& counting = Counting::it();
  const std::scoped_lock lock(counting.mutex);
  if (counting.modules) counting.modules->finish(counting.count);
  counting.modules.reset();
  counting.by_module = false;
  counting.is_on = false;
  return std::exchange(counting.count, {});
}

}  // namespace weft::engine
