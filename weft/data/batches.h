// Where training batches come from. A source is a pure function of (step, micro-batch index): nothing is consumed, nothing is
// kept, so resuming needs no state and N ranks see the same global batch as one. Immutable, so any thread may draw.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "weft/data/corpus.h"

namespace weft::data {

// Rows of seq + 1 tokens: the first seq are the input, the last seq the targets.
struct BatchShape {
  int64_t rows = 1;  // micro-batch
  int64_t seq = 1;
  int64_t numel() const { return rows * (seq + 1); }
};

class BatchSource {
 public:
  virtual ~BatchSource() = default;

  // Fills out with micro-batch `micro_batch` of step `step`. Requires: out.size() == shape().numel().
  virtual void draw(int64_t step, int64_t micro_batch, std::span<int64_t> out) const = 0;

  virtual BatchShape shape() const = 0;
  virtual int64_t vocab() const = 0;
};

// Uniform random tokens: for measurements, where the data must cost nothing and be the same everywhere.
std::unique_ptr<BatchSource> make_random_source(BatchShape shape, int64_t vocab, uint64_t seed);

// A corpus cut into periods; the last twentieth of each is held out, so that both parts see every region of the text.
// When the held-out part could not hold one sequence, nothing is held out.
class SplitCorpus {
 public:
  // The corpus must outlive this. Throws Error(kInput) when the corpus is shorter than one sequence.
  SplitCorpus(const Corpus& corpus, int64_t seq);

  bool has_held_out() const { return held_out_ > seq_; }
  // Places where a window of seq + 1 tokens may start.
  int64_t num_train_starts() const { return periods_ * (train_ - seq_); }
  int64_t num_held_out_starts() const { return has_held_out() ? periods_ * (held_out_ - seq_) : 0; }
  // The window that starts at place i of either part.
  std::span<const uint8_t> train_window(int64_t i) const;
  std::span<const uint8_t> held_out_window(int64_t i) const;

 private:
  std::span<const uint8_t> tokens_;
  int64_t seq_;
  int64_t periods_;   // how many
  int64_t period_;    // tokens in one
  int64_t train_;     // tokens of it to train on
  int64_t held_out_;  // tokens of it held out
};

// Windows at random places of one part of the split. The split must outlive the source.
enum class CorpusPart { kTrain, kHeldOut };
std::unique_ptr<BatchSource> make_corpus_source(const SplitCorpus& split, CorpusPart part, BatchShape shape,
                                                uint64_t seed);

}  // namespace weft::data
