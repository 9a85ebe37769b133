// What `weft train` trains on: the sources of its batches and, for text, the corpus behind them.
#pragma once

#include <memory>
#include <optional>

#include "weft/cli/front/train_options.h"
#include "weft/data/batches.h"
#include "weft/data/corpus.h"

namespace weft::cli {

// The sources point into the split, and the split into the corpus: never moved, hence always behind a pointer.
struct TrainData {
  std::optional<data::Corpus> corpus;      // none for random tokens
  std::optional<data::SplitCorpus> split;  // likewise
  std::unique_ptr<data::BatchSource> train;
  std::unique_ptr<data::BatchSource> held_out;  // null when nothing is held out
};

// Batches of so many rows, as the config has it. Throws Error(kInput) when the data is missing, empty or too short.
std::unique_ptr<TrainData> open_train_data(const TrainOptions& options, int64_t micro_batch);

}  // namespace weft::cli
