// For sampler_vs_python_test.py, not a test by itself. Reads lines "num_samples world rank seed epoch shuffle drop_last
// consumed" on standard input, and answers each with the indices that rank takes, in one line.
#include <iostream>

#include "weft/base/error.h"
#include "weft/data/sampler.h"

int main() {
  weft::data::SamplerOptions options;
  int64_t epoch = 0, consumed = 0;
  while (std::cin >> options.num_samples >> options.world >> options.rank >> options.seed >> epoch >> options.shuffle >>
         options.drop_last >> consumed) {
    try {
      weft::data::DistributedSampler sampler(options);
      sampler.resume({epoch, consumed, options.num_samples, options.seed, options.shuffle});
      for (int64_t i = 0; i < sampler.size(); ++i) std::cout << (i == 0 ? "" : " ") << sampler.at(i);
      std::cout << "\n";
    } catch (const weft::Error& error) {
      std::cerr << error.what() << "\n";
      return error.exit_code();
    }
  }
  return std::cin.eof() ? 0 : 2;
}
