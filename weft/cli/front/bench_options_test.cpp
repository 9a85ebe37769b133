#include "weft/cli/front/bench_options.h"

#include <gtest/gtest.h>

#include "weft/cli/front/test_refusal_impl.h"

namespace weft::cli {
namespace {

BenchCommOptions bench_options(const std::vector<std::string>& arguments) {
  return parse_bench_comm_options(arguments).value();
}

TEST(BenchCommOptions, TeachingDefaults) {
  const BenchCommOptions o = bench_options({"--teach"});
  EXPECT_TRUE(o.teach);
  EXPECT_EQ(o.num_ranks, 8);
  EXPECT_EQ(o.bytes, std::vector<uint64_t>{5'000'000});
  EXPECT_EQ(o.link.bytes_per_s, 1e6);
  EXPECT_EQ(o.link.latency_s, 0);
  EXPECT_EQ(o.language, config::Language::kEnglish);
}

TEST(BenchCommOptions, MeasuringDefaults) {
  const BenchCommOptions o = bench_options({});
  EXPECT_FALSE(o.teach);
  EXPECT_EQ(o.num_ranks, 2);
  EXPECT_EQ(o.bytes, (std::vector<uint64_t>{64 << 10, 1 << 20, 25 << 20}));
  EXPECT_EQ(o.operations, std::vector<std::string>{"all_reduce"});
  EXPECT_EQ(o.transports, std::vector<std::string>{"auto"});
  EXPECT_EQ(o.num_iterations, 0);
  EXPECT_EQ(o.threads, 1);
}

TEST(BenchCommOptions, TakesWhatIsTyped) {
  const BenchCommOptions o =
      bench_options({"--op", "all_gather,reduce", "--transport", "shm,gloo", "--rate", "1gbit", "-n", "4", "--iters",
                     "7", "--threads", "2", "--bytes", "1K", "--json", "--svg", "x.svg"});
  EXPECT_EQ(o.operations, (std::vector<std::string>{"all_gather", "reduce"}));
  EXPECT_EQ(o.transports, (std::vector<std::string>{"shm", "gloo"}));
  EXPECT_EQ(o.link.bytes_per_s, 125e6);
  EXPECT_EQ(o.num_ranks, 4);
  EXPECT_EQ(o.num_iterations, 7);
  EXPECT_EQ(o.threads, 2);
  EXPECT_EQ(o.bytes, std::vector<uint64_t>{1024});
  EXPECT_TRUE(o.json);
  EXPECT_EQ(o.svg_path, "x.svg");
  const BenchCommOptions t = bench_options(
      {"--teach", "--rate", "10gbit", "--latency", "50us", "--lang", "zh", "--bytes", "0", "--ranks", "1"});
  EXPECT_EQ(t.link.bytes_per_s, 1.25e9);
  EXPECT_DOUBLE_EQ(t.link.latency_s, 50e-6);
  EXPECT_EQ(t.language, config::Language::kChinese);
  EXPECT_EQ(bench_options({"--teach", "--latency", "0"}).link.latency_s, 0);
}

TEST(BenchCommOptions, RefusesWhatDoesNotFit) {
  const std::pair<std::vector<std::string>, std::string_view> cases[] = {
      {{"--teach", "--op", "all_reduce"}, "--op belongs to measuring"},
      {{"--teach", "--iters", "3"}, "--iters belongs to measuring"},
      {{"--latency", "1us"}, "--latency belongs to --teach"},
      {{"--lang", "zh"}, "--lang belongs to --teach"},
      {{"--measured"}, "--measured belongs to --teach"},
      {{"--teach", "--ranks", "65"}, "too many ranks to draw"},
      {{"--teach", "--bytes", "1K,2K"}, "--teach takes one size"},
      {{"--teach", "--rate", "0MB/s"}, "a rate above zero"},
      {{"--teach", "--latency", "5"}, "not a duration"},
      {{"--bytes", "1K,x"}, "not a number of bytes: 'x'"},
      {{"--ranks", "0"}, "outside 1..4096"},
      {{"--transport", "tcp"}, "'tcp' is not one of auto"},
      {{"--tech"}, "did you mean --teach?"}};
  for (const auto& [arguments, words] : cases) {
    const std::string message = refusal(parse_bench_comm_options, arguments);
    EXPECT_NE(message.find(words), std::string::npos) << words << " in: " << message;
  }
}

}  // namespace
}  // namespace weft::cli
