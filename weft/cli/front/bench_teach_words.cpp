#include "weft/cli/front/bench_teach_words.h"

#include "weft/base/text.h"
#include "weft/base/units.h"
#include "weft/monitor/numbers.h"

namespace weft::cli {
namespace {

using config::Language;
using sim::Algorithm;

const TeachWords kSerialBroadcast{
    {"Broadcast, one rank after the other", "广播：逐个发送"},
    {"The root sends everything to each of the others in turn. All links but one are idle.",
     "根依次把全部数据发给其余每个 rank。任何时刻只有一条链路在工作。"}};
const TeachWords kTreeBroadcast{
    {"Broadcast along a tree", "广播：树形"},
    {"Whoever has the data sends it on: the number of ranks that have it doubles with each step.",
     "拿到数据的 rank 立刻继续转发：每一步，拥有数据的 rank 数翻倍。"}};
const TeachWords kTreeReduce{
    {"Reduce along a tree", "归约：树形"},
    {"Ranks add in pairs: half of them pass their sum on and are done. The root ends with the sum of all.",
     "两两相加：每一步有一半的 rank 交出自己的部分和并结束。最后根得到全部之和。"}};
const TeachWords kReduceThenBroadcast{
    {"All-reduce: reduce, then broadcast", "全归约：先归约，再广播"},
    {"The tree upwards, then downwards. Every message is the whole data, and most ranks are idle most of the time.",
     "先沿树向上求和，再沿树向下分发。每条消息都是全部数据，多数 rank 大部分时间空闲。"}};
const TeachWords kRingReduceScatter{
    {"Reduce-scatter round a ring", "归约散布（reduce-scatter）：环形"},
    {"The data is cut into one part per rank. Each rank sends one part to the next and adds the one that comes: "
     "rank r ends with the sum of part r.",
     "数据按 rank 数切成若干份。每一步，每个 rank 把一份发给下一个 rank，并把收到的一份加到自己的上面：最后 rank r "
     "得到第 r 份之和。"}};
const TeachWords kRingAllGather{
    {"All-gather round a ring", "全收集（all-gather）：环形"},
    {"Rank r starts with part r. Each rank passes on the part it got last: after one round all have all.",
     "rank r 起初只有第 r 份。每一步，每个 rank 把刚收到的一份传给下一个：转一圈后人人都有全部。"}};
const TeachWords kRingAllReduce{
    {"All-reduce round a ring", "全归约：环形"},
    {"A reduce-scatter, then an all-gather. Every link is busy in every step, and a rank sends less than twice the "
     "data, "
     "however many ranks there are.",
     "先 reduce-scatter，再 all-gather。每一步所有链路都在工作；无论有多少 rank，每个 rank 发送的数据都不到两倍。"}};

const TeachLabels kLabels{
    .start = {"start", "起始"},
    .step = {"step", "步"},
    .comparison = {"comparison", "比较"},
    .steps = {"steps", "步"},
    .busiest = {"busiest sends", "单个 rank 最多发出"},
    .one_rank = {"One rank has nothing to send.", "只有一个 rank，无需发送。"},
    .key =
        {"In the pictures a row is a rank. A dot: nothing; a digit: the data of so many ranks, added up (1: its own); "
         "a block: what the collective is after.",
         "图中每行是一个 rank。点：没有数据；数字：已相加的 rank 数（1：自己的数据）；方块：集合通信所要的结果。"},
};

}  // namespace

const TeachWords& words_of(Algorithm algorithm) {
  switch (algorithm) {
    case Algorithm::kSerialBroadcast: return kSerialBroadcast;
    case Algorithm::kTreeBroadcast: return kTreeBroadcast;
    case Algorithm::kTreeReduce: return kTreeReduce;
    case Algorithm::kReduceThenBroadcast: return kReduceThenBroadcast;
    case Algorithm::kRingReduceScatter: return kRingReduceScatter;
    case Algorithm::kRingAllGather: return kRingAllGather;
    case Algorithm::kRingAllReduce: break;
  }
  return kRingAllReduce;
}

const TeachLabels& teach_labels() { return kLabels; }

std::string time_text(double seconds) {
  struct Unit {
    double size_s;
    const char* name;
  };
  constexpr Unit kUnits[] = {{1, " s"}, {1e-3, " ms"}, {1e-6, " us"}, {1e-9, " ns"}};
  if (seconds == 0) return "0 s";
  for (const Unit& unit : kUnits) {
    if (seconds >= unit.size_s) return cat(significant_text(seconds / unit.size_s, 4), unit.name);
  }
  return cat(significant_text(seconds, 4), " s");
}

std::string size_text(uint64_t bytes) {
  std::string text = format_rate(static_cast<double>(bytes));
  text.resize(text.size() - 2);  // without its "/s": bytes and rates must count in the same thousands
  return text;
}

std::string part_name(int part) { return part < 26 ? std::string(1, static_cast<char>('a' + part)) : cat(part + 1); }

std::string problem_text(const sim::Schedule& schedule, Language language) {
  const sim::Problem& problem = schedule.problem;
  const std::string numbers = cat(size_text(problem.bytes), ", ", format_rate(schedule.link.bytes_per_s));
  const std::string latency = time_text(schedule.link.latency_s);
  if (language == Language::kChinese) return cat(problem.world, " 个 rank，", numbers, "，每条消息延迟 ", latency);
  return cat(problem.world, problem.world == 1 ? " rank, " : " ranks, ", numbers, ", latency ", latency);
}

std::string result_text(const sim::Schedule& schedule, Language language) {
  const int steps = schedule.num_steps();
  const std::string time = time_text(schedule.time_s());
  if (language == Language::kChinese) return cat(steps, " 步，", time);
  return cat(time, " in ", steps, steps == 1 ? " step" : " steps");
}

std::string comparison_text(const sim::Schedule& slow, const sim::Schedule& fast, Language language) {
  if (!(slow.time_s() > 0) || !(fast.time_s() > 0)) return "";
  const std::string ratio = significant_text(slow.time_s() / fast.time_s(), 3);
  const std::string &a = words_of(fast.algorithm).title.in(language), &b = words_of(slow.algorithm).title.in(language);
  const std::string fast_time = time_text(fast.time_s()), slow_time = time_text(slow.time_s());
  if (language == Language::kChinese)
    return cat("“", a, "”用 ", fast_time, "，“", b, "”用 ", slow_time, "，是前者的 ", ratio, " 倍。");
  return cat(a, ": ", fast_time, ". ", b, ": ", slow_time, ", ", ratio, " times as long.");
}

}  // namespace weft::cli
