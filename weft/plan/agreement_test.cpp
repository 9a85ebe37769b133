#include "weft/plan/agreement.h"

#include <gtest/gtest.h>

#include <functional>
#include <set>

#include "weft/plan/example_tables_impl.h"

namespace weft::plan {
namespace {

Description toy_description() { return describe(make_plan(toy_table(), toy_options())); }

std::string difference(const Description& a, const Description& b) {
  return first_difference(a, b, 0, 3).value_or("none");
}

// The example of docs/plan.md.
constexpr std::string_view kToyText =
    "weft plan 1\n"
    "setting world 2\n"
    "setting zero_optimization.stage 0\n"
    "setting gradient_accumulation_steps 1\n"
    "setting zero_optimization.reduce_bucket_size 160\n"
    "setting first_bucket_bytes 0\n"
    "setting slice_multiple 32\n"
    "setting zero_optimization.overlap_comm true\n"
    "setting data_types.grad_accum_dtype as-parameters\n"
    "setting communication_data_type as-gradients\n"
    "setting weft.shard_update false\n"
    "setting weft.common_parameters false\n"
    "setting weft.reduce_each step\n"
    "setting optimizer.state_bytes_per_element 8\n"
    "setting optimizer.fp32_copy true\n"
    "setting zero_optimization.stage3_max_live_parameters 100\n"
    "parameter fp32 trainable - [10,8] wte\n"
    "parameter fp32 trainable - [8,8] h.weight\n"
    "parameter fp32 trainable - [8] h.bias\n"
    "parameter fp32 trainable - [8] ln\n"
    "parameter fp32 trainable - [] scale\n"
    "parameter fp32 trainable 0 [10,8] head\n"
    "order 4 3 2 1 0\n"
    "bucket fp32 trainable 4 192\n"
    "bucket fp32 trainable 1 128\n"
    "end\n";

// On-disk: checkpoints and ranks of other builds compare with this hash; it changes only with the version.
constexpr std::string_view kToyHash = "0242251b5c27893ec864e7a4084499ec";

TEST(Agreement, TheTextOfTheToyModel) { EXPECT_EQ(to_text(toy_description()), kToyText); }

TEST(Agreement, TheHashOfTheToyModelIsStable) { EXPECT_EQ(to_hex(hashes_of(toy_description()).all), kToyHash); }

TEST(Agreement, ReadsWhatItWrote) {
  Rng rng(17);
  for (int trial = 0; trial < 300; ++trial) {
    const ParameterTable table = random_table(rng);
    const Description description =
        describe(make_plan(table, random_options(rng, table)), {{"seed", "3 or so"}, {"x", ""}});
    Result<Description> read = read_description(to_text(description));
    ASSERT_TRUE(read.ok()) << read.error().what();
    ASSERT_EQ(read.value(), description);
    ASSERT_EQ(first_difference(read.value(), description, 0, 1), std::nullopt);
    ASSERT_EQ(hashes_of(read.value()), hashes_of(description));
  }
}

TEST(Agreement, NamesWithSpacesAndOtherScriptsComeBack) {
  const ParameterTable table({{.name = " two  words ", .shape = {3}}, {.name = "嵌入"}, {.name = ""}});
  const Description description = describe(make_plan(table, {}));
  EXPECT_EQ(read_description(to_text(description)).value(), description);
}

// --- Every single change is seen ----------------------------------------------------------------------------------------

struct OptionChange {
  std::function<void(PlanOptions&)> change;
  std::string sentence;
};

TEST(Agreement, EachOptionCounts) {
  const OptionChange cases[] = {
      {[](auto& o) { o.layout.world = 3; }, "setting 'world' is 2 on rank 0 and 3 on rank 3"},
      {[](auto& o) { o.stage = 2; }, "setting 'zero_optimization.stage' is 0 on rank 0 and 2 on rank 3"},
      {[](auto& o) { o.accumulation_steps = 4; },
       "setting 'gradient_accumulation_steps' is 1 on rank 0 and 4 on rank 3"},
      {[](auto& o) { o.layout.bucket_elements = 161; },
       "setting 'zero_optimization.reduce_bucket_size' is 160 on rank 0 and 161 on rank 3"},
      {[](auto& o) { o.layout.first_bucket_bytes = 1'048'576; },
       "setting 'first_bucket_bytes' is 0 on rank 0 and 1048576 on rank 3"},
      {[](auto& o) { o.layout.slice_multiple = 64; }, "setting 'slice_multiple' is 32 on rank 0 and 64 on rank 3"},
      {[](auto& o) { o.overlap = false; },
       "setting 'zero_optimization.overlap_comm' is true on rank 0 and false on rank 3"},
      {[](auto& o) { o.gradient_dtype = Dtype::kFp32; },
       "setting 'data_types.grad_accum_dtype' is as-parameters on rank 0 and fp32 on rank 3"},
      {[](auto& o) { o.wire_dtype = Dtype::kBf16; },
       "setting 'communication_data_type' is as-gradients on rank 0 and bf16 on rank 3"},
      {[](auto& o) { o.shard_update = true; }, "setting 'weft.shard_update' is false on rank 0 and true on rank 3"},
      {[](auto& o) { o.common_parameters = true; },
       "setting 'weft.common_parameters' is false on rank 0 and true on rank 3"},
      {[](auto& o) { o.reduce_each = true; }, "setting 'weft.reduce_each' is step on rank 0 and micro_step on rank 3"},
      {[](auto& o) { o.optimizer.state_bytes_per_element = 4; },
       "setting 'optimizer.state_bytes_per_element' is 8 on rank 0 and 4 on rank 3"},
      {[](auto& o) { o.optimizer.fp32_copy = false; },
       "setting 'optimizer.fp32_copy' is true on rank 0 and false on rank 3"},
      {[](auto& o) { o.live_elements = 99; },
       "setting 'zero_optimization.stage3_max_live_parameters' is 100 on rank 0 and 99 on rank 3"},
      {[](auto& o) { o.layout.ready_order = {3, 4, 2, 1, 0}; },
       "gradient 0 of the ready order is that of parameter 4 'scale' on rank 0 and parameter 3 'ln' on rank 3"},
      {[](auto& o) { o.layout.boundaries = std::vector<int>{3}; },
       "bucket 0 is fp32, 4 parameters, 192 elements on rank 0 and fp32, 3 parameters, 128 elements on rank 3"},
      {[](auto& o) { o.layout.boundaries = std::vector<int>{4}; }, "none"},
  };
  std::set<Hash128> seen = {hashes_of(toy_description()).all};
  for (const OptionChange& one : cases) {
    PlanOptions options = toy_options();
    one.change(options);
    const Description changed = describe(make_plan(toy_table(), options));
    EXPECT_EQ(difference(toy_description(), changed), one.sentence);
    EXPECT_EQ(seen.insert(hashes_of(changed).all).second, one.sentence != "none") << one.sentence;
  }
}

struct ParameterChange {
  std::function<void(std::vector<Parameter>&)> change;
  std::string sentence;
};

TEST(Agreement, EachParameterCounts) {
  const ParameterChange cases[] = {
      {[](auto& p) { p[1].name = "g.weight"; }, "parameter 1 is 'h.weight' on rank 0 and 'g.weight' on rank 3"},
      {[](auto& p) { p[1].shape = {4, 16}; },
       "parameter 1 'h.weight' has shape [8, 8] on rank 0 and [4, 16] on rank 3"},
      {[](auto& p) { p[4].shape = {1}; }, "parameter 4 'scale' has shape [] on rank 0 and [1] on rank 3"},
      {[](auto& p) { p[2].dtype = Dtype::kBf16; }, "parameter 2 'h.bias' is fp32 on rank 0 and bf16 on rank 3"},
      {[](auto& p) { p[3].frozen = true; }, "parameter 3 'ln' is trainable on rank 0 and frozen on rank 3"},
      {[](auto& p) { p[5].tied_to = {}; },
       "parameter 5 'head' is tied to parameter 0 on rank 0 and not tied on rank 3"},
      {[](auto& p) { p.pop_back(); }, "rank 0 has 6 parameters and rank 3 has 5; parameter 5 'head' is only on rank 0"},
      {[](auto& p) { p.push_back({.name = "new"}); },
       "rank 0 has 6 parameters and rank 3 has 7; parameter 6 'new' is only on rank 3"},
      {[](auto& p) { std::swap(p[2], p[3]); }, "parameter 2 is 'h.bias' on rank 0 and 'ln' on rank 3"},
  };
  const AgreementHashes base = hashes_of(toy_description());
  std::set<Hash128> seen = {base.all};
  for (const ParameterChange& one : cases) {
    std::vector<Parameter> parameters = toy_table().all();
    one.change(parameters);
    const Description changed = describe(make_plan(ParameterTable(parameters), toy_options()));
    EXPECT_EQ(difference(toy_description(), changed), one.sentence);
    const AgreementHashes hashes = hashes_of(changed);
    EXPECT_TRUE(seen.insert(hashes.all).second) << one.sentence;
    EXPECT_EQ(hashes.settings, base.settings);
    EXPECT_NE(hashes.parameters, base.parameters);
  }
}

TEST(Agreement, CallersCanAddSettings) {
  const Plan plan = make_plan(toy_table(), toy_options());
  const Description a = describe(plan, {{"seed", "1"}}), b = describe(plan, {{"seed", "2"}}), none = describe(plan);
  EXPECT_EQ(difference(a, b), "setting 'seed' is 1 on rank 0 and 2 on rank 3");
  EXPECT_EQ(difference(a, none), "setting 'seed' is 1 on rank 0 and absent on rank 3");
  EXPECT_EQ(difference(none, a), "setting 'seed' is absent on rank 0 and 1 on rank 3");
  EXPECT_THROW(describe(plan, {{"two words", "1"}}), Error);
  EXPECT_THROW(describe(plan, {{"lines", "1\n2"}}), Error);
  EXPECT_THROW(describe(plan, {{"world", "7"}}), Error);
}

TEST(Agreement, BucketsAreComparedByNumberToo) {
  Description shorter = toy_description();
  shorter.buckets.pop_back();
  EXPECT_EQ(difference(toy_description(), shorter), "rank 0 has 2 buckets and rank 3 has 1");
  shorter = toy_description();
  shorter.ready_order.pop_back();
  EXPECT_EQ(difference(shorter, toy_description()), "rank 0 has 4 gradients in its ready order and rank 3 has 5");
}

// --- Bytes from anywhere ------------------------------------------------------------------------------------------------

void expect_refused(const std::string& text, const std::string& what) {
  const Result<Description> read = read_description(text);
  ASSERT_FALSE(read.ok()) << text;
  EXPECT_EQ(read.error().kind(), ErrorKind::kInput);
  EXPECT_EQ(read.error().text().title, "not the description of a plan");
  EXPECT_NE(read.error().text().what.find(what), std::string::npos) << read.error().what();
  EXPECT_TRUE(is_one_line(read.error().text().what)) << "foreign bytes are not printed";
}

std::string changed_toy(std::string_view from, std::string_view to) {
  std::string text(kToyText);
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

TEST(Agreement, RefusesWhatIsNoDescription) {
  expect_refused("", "line 1: the text ends too early");
  expect_refused("weft plan 1", "line 1: the text ends too early");
  expect_refused("\n", "does not begin with 'weft plan 1'");
  expect_refused("weft plan 2\nend\n", "version 2, this weft reads version 1");
  expect_refused("weft plan 1 \nx\n", "line 2: not a line that belongs here: 'x'");
  expect_refused("weft plan 1 1\n", "there is more than expected");
  expect_refused("weft plan 1\nend\n", "line 2: not a line that belongs here: 'end'");
  expect_refused(std::string(kToyText) + "x", "more after the end");
  expect_refused(std::string(kToyText.substr(0, kToyText.size() - 4)), "ends too early");
  expect_refused(changed_toy("setting world 2", "setting  2"), "line 2: a word is missing");
  expect_refused(changed_toy("world 2", "world \x1b[2J"), "is no setting");
  expect_refused(changed_toy("parameter fp32", "parameter int8"), "'int8' is no type");
  expect_refused(changed_toy("trainable", "half"), "'half' is not frozen or trainable");
  expect_refused(changed_toy("- [10,8]", "-1 [10,8]"), "'-1' is not a whole number");
  expect_refused(changed_toy("- [10,8]", "9999999 [10,8]"), "'9999999' is not a whole number from 0 to 1048576");
  for (const char* shape : {"10,8", "[10,8", "[10,]", "[,8]", "[1 0,8]", "[-1]", "[99999999999999999999]", "[", "]["})
    expect_refused(changed_toy("[10,8]", shape), "line 17");
  expect_refused(changed_toy("[10,8]", "[8796093022208,2]"), "too many elements");
  expect_refused(changed_toy("wte", "w\x01te"), "a name that cannot be printed");
  expect_refused(changed_toy("wte", std::string(kMaxNameBytes + 1, 'x')), "a name that cannot be printed");
  expect_refused(changed_toy("order 4", "order x"), "'x' is not a whole number");
  expect_refused(changed_toy("order 4", "order 4294967296"), "is not a whole number");
  expect_refused(changed_toy("4 192\n", "4 192 7\n"), "more than expected: '7'");
  expect_refused(changed_toy("4 192\n", "4\n"), "a word is missing");
  expect_refused(changed_toy("4 192", "4 18446744073709551616"), "is not a whole number");
  expect_refused(changed_toy("order", std::string(500, 'z')), "zzz...'");
  std::string many = "weft plan 1\n";
  for (int i = 0; i < 1025; ++i) many += cat("setting s", i, " 1\n");
  expect_refused(many, "more than 1024 lines");
}

std::string damaged(Rng& rng, std::string text) {
  for (int64_t cuts = draw(rng, 1, 4); cuts > 0 && !text.empty(); --cuts) {
    const auto at = static_cast<size_t>(draw(rng, 0, std::ssize(text) - 1));
    const auto length = static_cast<size_t>(draw(rng, 1, 12));
    switch (draw(rng, 0, 5)) {
      case 0: text[at] = static_cast<char>(rng()); break;
      case 1: text.erase(at, length); break;
      case 2: text.insert(at, text.substr(static_cast<size_t>(draw(rng, 0, std::ssize(text) - 1)), length)); break;
      case 3: text.resize(at); break;
      case 4: text.insert(at, cat(rng())); break;
      default: text.insert(at, 1, "\n ,[]-9\0"[draw(rng, 0, 7)]); break;
    }
  }
  return text;
}

// Either an error that says so, or a description whose own text reads back as itself.
void expect_handled(const std::string& text) {
  Result<Description> read = read_description(text);
  if (!read.ok()) {
    ASSERT_EQ(read.error().kind(), ErrorKind::kInput);
    ASSERT_TRUE(is_one_line(read.error().text().what));
    return;
  }
  ASSERT_EQ(read_description(to_text(read.value())).value(), read.value());
  const std::string said = difference(toy_description(), read.value());
  ASSERT_EQ(said == "none", read.value() == toy_description()) << said;
  ASSERT_TRUE(is_one_line(said));
}

TEST(Agreement, SurvivesDamagedText) {
  Rng rng(23);
  for (int trial = 0; trial < 20'000 && !testing::Test::HasFailure(); ++trial) {
    SCOPED_TRACE(cat("trial ", trial));
    expect_handled(damaged(rng, std::string(kToyText)));
  }
}

TEST(Agreement, SurvivesRandomBytes) {
  Rng rng(29);
  for (int trial = 0; trial < 5'000 && !testing::Test::HasFailure(); ++trial) {
    std::string text = trial % 2 == 0 ? "weft plan 1\n" : "";
    for (int64_t length = draw(rng, 0, 200); length > 0; --length) text += static_cast<char>(rng());
    expect_handled(text);
  }
}

}  // namespace
}  // namespace weft::plan
