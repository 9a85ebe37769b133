#include "weft/data/batches.h"

#include <algorithm>

#include "weft/base/check.h"
#include "weft/base/error.h"
#include "weft/data/counter_rng.h"

namespace weft::data {
namespace {

class RandomSource : public BatchSource {
 public:
  RandomSource(BatchShape shape, int64_t vocab, uint64_t seed) : shape_(shape), vocab_(vocab), seed_(seed) {}

  void draw(int64_t step, int64_t micro_batch, std::span<int64_t> out) const override {
    WEFT_CHECK_EQ(static_cast<int64_t>(out.size()), shape_.numel());
    const CounterRng rng(seed_, static_cast<uint64_t>(step), static_cast<uint64_t>(micro_batch));
    for (size_t i = 0; i < out.size(); ++i) out[i] = static_cast<int64_t>(rng.below(i, static_cast<uint64_t>(vocab_)));
  }
  BatchShape shape() const override { return shape_; }
  int64_t vocab() const override { return vocab_; }

 private:
  BatchShape shape_;
  int64_t vocab_;
  uint64_t seed_;
};

class CorpusSource : public BatchSource {
 public:
  CorpusSource(const SplitCorpus& split, CorpusPart part, BatchShape shape, uint64_t seed)
      : split_(split), part_(part), shape_(shape), seed_(seed) {}

  void draw(int64_t step, int64_t micro_batch, std::span<int64_t> out) const override {
    WEFT_CHECK_EQ(static_cast<int64_t>(out.size()), shape_.numel());
    const bool train = part_ == CorpusPart::kTrain;
    const auto starts = static_cast<uint64_t>(train ? split_.num_train_starts() : split_.num_held_out_starts());
    const CounterRng rng(seed_, static_cast<uint64_t>(step), static_cast<uint64_t>(micro_batch));
    auto place = out.begin();
    for (int64_t row = 0; row < shape_.rows; ++row) {
      const auto start = static_cast<int64_t>(rng.below(static_cast<uint64_t>(row), starts));
      place = std::ranges::copy(train ? split_.train_window(start) : split_.held_out_window(start), place).out;
    }
  }
  BatchShape shape() const override { return shape_; }
  int64_t vocab() const override { return Corpus::kVocab; }

 private:
  const SplitCorpus& split_;
  CorpusPart part_;
  BatchShape shape_;
  uint64_t seed_;
};

}  // namespace

std::unique_ptr<BatchSource> make_random_source(BatchShape shape, int64_t vocab, uint64_t seed) {
  return std::make_unique<RandomSource>(shape, vocab, seed);
}

SplitCorpus::SplitCorpus(const Corpus& corpus, int64_t seq) : tokens_(corpus.tokens()), seq_(seq) {
  if (corpus.size() < seq + 1) {
    throw Error(ErrorKind::kInput, {.title = "the corpus is shorter than one sequence",
                                    .what = cat(corpus.size(), " tokens; one sequence and its target take ", seq + 1),
                                    .where = corpus.name(),
                                    .fix = "give --data a longer text, or a smaller --seq"});
  }
  // About a mebibyte a period, so that the held-out part samples the whole text; more where a sequence is so long that the
  // twentieth held out could not hold two.
  const int64_t period_tokens = std::max<int64_t>(1 << 20, 40 * (seq + 1));
  periods_ = std::max<int64_t>(1, corpus.size() / period_tokens);
  period_ = corpus.size() / periods_;
  held_out_ = period_ / 20;
  if (!has_held_out()) held_out_ = 0;
  train_ = period_ - held_out_;
}

std::span<const uint8_t> SplitCorpus::train_window(int64_t i) const {
  const int64_t starts = train_ - seq_;
  const int64_t at = (i / starts) * period_ + i % starts;
  return tokens_.subspan(static_cast<size_t>(at), static_cast<size_t>(seq_ + 1));
}

std::span<const uint8_t> SplitCorpus::held_out_window(int64_t i) const {
  const int64_t starts = held_out_ - seq_;
  const int64_t at = (i / starts) * period_ + train_ + i % starts;
  return tokens_.subspan(static_cast<size_t>(at), static_cast<size_t>(seq_ + 1));
}

std::unique_ptr<BatchSource> make_corpus_source(const SplitCorpus& split, CorpusPart part, BatchShape shape,
                                                uint64_t seed) {
  return std::make_unique<CorpusSource>(split, part, shape, seed);
}

}  // namespace weft::data
