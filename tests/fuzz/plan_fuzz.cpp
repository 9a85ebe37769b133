// Any bytes: a description reads back as itself or is an Error, and a table of its parameters makes a plan or an Error.
#include <cstdint>
#include <cstdlib>
#include <string>

#include "weft/plan/agreement.h"
#include "weft/plan/ledger.h"
#include "weft/plan/report.h"
#include "weft/plan/schedule.h"

using namespace weft::plan;  // NOLINT(google-build-using-namespace): a program of one function

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace {

void require(bool holds) {
  if (!holds) std::abort();
}

// The size of the input stands in for the config: it is as good as any other number the fuzzer can steer.
PlanOptions options_for(const Description& description, size_t size) {
  const auto number = static_cast<int>(size % 70'000);
  PlanOptions options{.layout = {.world = 1 + number, .bucket_elements = 1 + number}};
  options.layout.ready_order = description.ready_order;
  options.accumulation_steps = 1 + number % 3;
  return options;
}

void check_plan(const Description& description, size_t size) {
  const Plan plan = make_plan(ParameterTable(description.parameters), options_for(description, size));
  require(first_difference(describe(plan), describe(plan), 0, 1) == std::nullopt);
  for (int stage = 0; stage <= kMaxStage; ++stage) {
    require(make_ledger(plan, stage).total() > 0);
    require(make_schedule(plan, stage).sent_bytes() >= 0);
  }
  require(!plan_text(plan).empty() && !plan_json(plan).empty());
}

}  // namespace

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    const Description description = read_description(text).value();
    require(read_description(to_text(description)).value() == description);
    require((first_difference(description, {}, 0, 1) == std::nullopt) == (description == Description{}));
    check_plan(description, size);
  } catch (const weft::Error& error) {
    require(error.kind() == weft::ErrorKind::kInput);
  }
  return 0;
}
