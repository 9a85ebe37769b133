// train_batch_size = train_micro_batch_size_per_gpu x gradient_accumulation_steps x world: any two give the third, as
// DeepSpeed works it out, floor divisions and all; then the product must be right.
#include <optional>

#include "weft/base/text.h"
#include "weft/config/reading_impl.h"

namespace weft::config {
namespace {

constexpr std::string_view kBatch = "train_batch_size";
constexpr std::string_view kMicro = "train_micro_batch_size_per_gpu";
constexpr std::string_view kSteps = "gradient_accumulation_steps";

std::optional<int64_t> integer(const Reading& reading, std::string_view path) {
  const Value& value = reading.value(path);
  return value.kind == Kind::kInt ? std::optional(value.integer) : std::nullopt;
}

std::string world_words(const Reading& reading) {
  return cat(reading.world, reading.world == 1 ? " rank" : " ranks", " (", reading.world_origin.note.en, ")");
}

class Triangle {
 public:
  explicit Triangle(Reading& reading)
      : reading_(reading),
        batch_(integer(reading, kBatch)),
        micro_(integer(reading, kMicro)),
        steps_(integer(reading, kSteps)) {}

  void infer_world() {
    if (!batch_ || !micro_ || !steps_ || *micro_ <= 0 || *steps_ <= 0) return;
    const int64_t share = *micro_ * *steps_;
    if (*batch_ <= 0 || *batch_ % share != 0) return;
    reading_.world = *batch_ / share;
    reading_.world_origin.kind = Origin::Kind::kDerived;
    reading_.world_origin.note = {
        cat("implied by ", *batch_, " = ", *micro_, " x ", *steps_, " x world; say --world to check it"),
        cat("由 ", *batch_, " = ", *micro_, " × ", *steps_, " × 卡数 推出；用 --world 核对")};
  }

  void resolve() {
    const int64_t world = reading_.world;
    if (batch_ && micro_ && steps_) {
    } else if (batch_ && micro_) {
      steps_ = derive(kSteps, *micro_ > 0 ? *batch_ / *micro_ / world : 0, "train_batch_size / micro batch / world");
    } else if (batch_ && steps_) {
      micro_ = derive(kMicro, *steps_ > 0 ? *batch_ / world / *steps_ : 0, "train_batch_size / world / accumulation");
    } else if (micro_) {
      if (!steps_) steps_ = derive(kSteps, 1, "1 where nothing is said");
      batch_ = derive(kBatch, *micro_ * *steps_ * world, "micro batch x accumulation x world");
    } else if (batch_) {
      steps_ = derive(kSteps, 1, "1 where nothing is said");
      micro_ = derive(kMicro, *batch_ / world, "train_batch_size / world");
    } else {
      return report_missing();
    }
    check();
  }

 private:
  int64_t derive(std::string_view path, int64_t value, std::string_view rule) {
    set_value(reading_, path, int_value(value), {Origin::Kind::kDerived, {}, {std::string(rule), std::string(rule)}});
    return value;
  }

  bool was_given_badly() const {
    for (const Problem& problem : reading_.problems) {
      if (problem.severity == Severity::kError &&
          (problem.path == kBatch || problem.path == kMicro || problem.path == kSteps))
        return true;
    }
    return false;
  }

  // Before it was removed, it chose the three sizes itself; weft refuses it elsewhere.
  bool supplied_by_elasticity() const {
    const Value* enabled = find_path(reading_.document.root, "elasticity.enabled");
    return enabled != nullptr && enabled->boolean && find_setting("elasticity")->exists_in(reading_.version);
  }

  void report_missing() {
    if (!was_given_badly() && !supplied_by_elasticity()) {
      report(reading_, "batch/missing", kMicro, {},
             {"neither train_batch_size nor train_micro_batch_size_per_gpu is given; one of them must be",
              "train_batch_size 和 train_micro_batch_size_per_gpu 至少要给出一个"},
             {"add \"train_micro_batch_size_per_gpu\"", "加上 \"train_micro_batch_size_per_gpu\""})
          .deepspeed_refuses = true;
    }
    set_value(reading_, kMicro, int_value(1), {});
    set_value(reading_, kSteps, int_value(1), {});
    set_value(reading_, kBatch, int_value(reading_.world), {});
  }

  void check() {
    if (was_given_badly() || *batch_ == *micro_ * *steps_ * reading_.world) return;
    const int64_t share = *micro_ * reading_.world;
    const int64_t product = share * *steps_;
    Problem& problem = report(reading_, "batch/mismatch", kBatch, reading_.span_of(kBatch),
                              {cat("train_batch_size ", *batch_, " is not micro batch ", *micro_, " x accumulation ",
                                   *steps_, " x ", world_words(reading_), " = ", product),
                               cat("train_batch_size ", *batch_, " ≠ 微批次 ", *micro_, " × 累积 ", *steps_, " × ",
                                   reading_.world, " 卡（", reading_.world_origin.note.zh, "）= ", product)});
    problem.deepspeed_refuses = true;
    problem.current = cat(*batch_);
    suggest(problem, share);
  }

  void suggest(Problem& problem, int64_t share) {
    const bool micro_given = reading_.given(kMicro);
    if (share > 0 && *batch_ % share == 0 && micro_given) {
      const std::string steps = cat(*batch_ / share);
      problem.fix = {cat("with these ranks gradient_accumulation_steps ", steps, " keeps the batch"),
                     cat("按这个卡数，把 gradient_accumulation_steps 设为 ", steps, " 可保持批次大小不变")};
      problem.edits = {{Edit::Kind::kSet, std::string(kSteps), "", steps}};
      problem.suggested = cat("gradient_accumulation_steps ", steps);
      return;
    }
    const int64_t micro = *micro_ > 0 ? *micro_ : 1;
    const int64_t steps = *steps_ > 0 ? *steps_ : 1;
    const std::string batch = cat(micro * steps * reading_.world);
    problem.suggested = batch;
    problem.fix = {cat("train_batch_size must be a multiple of ", micro * reading_.world, ": ", batch, " fits"),
                   cat("train_batch_size 必须是 ", micro * reading_.world, " 的倍数：可以用 ", batch)};
    problem.edits = {{Edit::Kind::kSet, std::string(kBatch), "", batch}};
    if (*micro_ <= 0 && micro_given) problem.edits.push_back({Edit::Kind::kSet, std::string(kMicro), "", cat(micro)});
  }

  Reading& reading_;
  std::optional<int64_t> batch_;
  std::optional<int64_t> micro_;
  std::optional<int64_t> steps_;
};

}  // namespace

void resolve_batch(Reading& reading, const Facts& facts) {
  Triangle triangle(reading);
  reading.world_origin.note = {"nobody said how many: 1 assumed", "未说明卡数：按 1 计算"};
  if (const auto found = facts.find("world"); found != facts.end() && found->second.value.kind == Kind::kInt) {
    reading.world = found->second.value.integer;
    reading.world_origin.kind = found->second.from.starts_with('-') ? Origin::Kind::kFlag : Origin::Kind::kEnvironment;
    reading.world_origin.note = {cat("from ", found->second.from), cat("来自 ", found->second.from)};
  } else {
    triangle.infer_world();
  }
  triangle.resolve();
}

}  // namespace weft::config
