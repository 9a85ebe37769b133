#include "weft/engine/flop_counter.h"

#include <ATen/record_function.h>

#include <atomic>
#include <mutex>
#include <utility>

#include "weft/base/check.h"
#include "weft/engine/operator_flops.h"

namespace weft::engine {
namespace {

struct Counting {
  std::mutex mutex;
  FlopCount count;
  std::atomic<bool> is_on = false;

  static Counting& it() {
    static Counting one;
    return one;
  }
};

// Operators under way on this thread that are counted. Autocast calls an operator again, with its arguments narrowed, out of itself:
// only the outer one counts.
thread_local int t_depth = 0;

struct UnderWay final : at::ObserverContext {
  OperatorFlops flops;
};

std::unique_ptr<at::ObserverContext> before_operator(const at::RecordFunction& function) {
  const FlopKind kind = flop_kind_of(function.name());
  if (kind == FlopKind::kNone) return nullptr;
  auto out = std::make_unique<UnderWay>();
  if (t_depth++ == 0) out->flops = flops_before(kind, function.inputs());
  return out;
}

void after_operator(const at::RecordFunction& function, at::ObserverContext* context) {
  const auto* const one = static_cast<UnderWay*>(context);
  if (one == nullptr || --t_depth > 0) return;
  const int64_t flops = flops_after(one->flops, function.outputs());
  Counting& counting = Counting::it();
  const std::scoped_lock lock(counting.mutex);
  counting.count.total += flops;
  counting.count.by_operator[function.name()] += flops;
  ++counting.count.calls[function.name()];
}

}  // namespace

FlopCounter::FlopCounter() {
  Counting& counting = Counting::it();
  WEFT_CHECK(!counting.is_on.exchange(true));
  {
    const std::scoped_lock lock(counting.mutex);
    counting.count = {};
  }
  handle_ = at::addGlobalCallback(at::RecordFunctionCallback(&before_operator, &after_operator)
                                      .needsInputs(true)
                                      .needsOutputs(true)
                                      .scopes({at::RecordScope::FUNCTION}));
}

FlopCounter::~FlopCounter() { end(); }

FlopCount FlopCounter::end() {
  if (handle_ == 0) return {};
  at::removeCallback(handle_);
  handle_ = 0;
  Counting& counting = Counting::it();
  const std::scoped_lock lock(counting.mutex);
  counting.is_on = false;
  return std::exchange(counting.count, {});
}

}  // namespace weft::engine
