// A rank of a fault trial: joins, makes collectives of every kind until a peer is lost, and says in one line of JSON whom it
// lost. fault_trials.py starts it and does the harm; WEFT_FAULTS can do it from inside.
//
// Exit codes: 0 all rounds went by, 3 a peer was lost, 4 another error.
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/ones.h>

#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "weft/base/clock.h"
#include "weft/base/error.h"
#include "weft/comm/peer_lost.h"
#include "weft/comm/world.h"

namespace {

using weft::comm::Group;
using Json = nlohmann::json;

void say(const Json& what) {
  std::printf("%s\n", what.dump().c_str());
  std::fflush(stdout);
}

void run_round(Group& group, int64_t round) {
  const int world = group.world(), root = static_cast<int>(round % world);
  const int64_t count = round % 3 == 0 ? 17 : round % 3 == 1 ? 40'000 : 400'000;
  const at::Tensor data = at::ones({count}),
                   part = at::empty({weft::comm::split_evenly(count, world)[static_cast<size_t>(group.rank())]});
  const at::Tensor even = at::ones({count / world * world}), crossed = at::empty_like(even);
  group.all_reduce(data);
  group.reduce_scatter(data, part);
  group.all_gather(part, data);
  group.broadcast(data, root);
  group.reduce(data, root);
  group.all_to_all(even, crossed);
  const auto mine = at::ones({100});
  const auto all = group.rank() == root ? at::empty({int64_t{100} * world}) : at::Tensor();
  group.gather(mine, all, root);
  group.scatter(all, mine, root);
  group.start(weft::comm::all_reduce(data)).wait();
  group.barrier();
}

int run(int64_t num_rounds) {
  try {
    const weft::World world = weft::init();
    say({{"joined", world.rank}});
    for (int64_t round = 0; round < num_rounds; ++round) run_round(*world.group, round);
    say({{"done", num_rounds}});
    return 0;
  } catch (const weft::comm::PeerLost& lost) {
    const auto& loss = lost.loss();
    say({{"lost", lost.rank()}, {"host", loss.host}, {"last", loss.last_collective}, {"text", lost.what()}});
    return 3;
  } catch (const weft::Error& error) {
    say({{"error", error.what()}});
    return error.exit_code() == 2 ? 2 : 4;
  }
}

}  // namespace

int main(int argc, char** argv) { return run(argc > 1 ? std::stoll(argv[1]) : 1'000'000); }
