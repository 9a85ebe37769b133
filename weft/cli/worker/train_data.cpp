#include "weft/cli/worker/train_data.h"

namespace weft::cli {

std::unique_ptr<TrainData> open_train_data(const TrainOptions& options, int64_t micro_batch) {
  constexpr uint64_t kHeldOutSeed = 0x68656C64;  // one for all runs, so that their held-out losses can be compared
  auto out = std::make_unique<TrainData>();
  const data::BatchShape shape{.rows = micro_batch, .seq = options.seq};
  const auto seed = static_cast<uint64_t>(options.seed);
  if (options.data == "random") {
    out->train = make_random_source(shape, options.vocab, seed);
    return out;
  }
  Env& env = Env::posix();
  out->corpus = options.data == "corpus" ? data::read_python_corpus(env) : data::read_corpus(env, options.data);
  out->split.emplace(*out->corpus, options.seq);
  out->train = make_corpus_source(*out->split, data::CorpusPart::kTrain, shape, seed);
  if (out->split->has_held_out()) {
    out->held_out = make_corpus_source(*out->split, data::CorpusPart::kHeldOut, shape, kHeldOutSeed);
  }
  return out;
}

}  // namespace weft::cli
