#include "weft/comm/checking_group.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include "tests/support/ranks.h"
#include "weft/base/error.h"
#include "weft/comm/fingerprint.h"
#include "weft/comm/peer_lost.h"
#include "weft/comm/test_groups_impl.h"

namespace weft::comm {
namespace {

const Wrap kChecked = [](std::shared_ptr<Group> inner) { return make_checking_group(std::move(inner)); };

void with_checked(int world, const std::function<void(Group&)>& body) {
  test::run_ranks_as_threads(world, in_group(kChecked, body));
}

// Every rank must be told, in the same words.
void expect_refused(Group& group, const std::function<void()>& call, const std::vector<std::string>& says) {
  try {
    call();
    ADD_FAILURE() << "rank " << group.rank() << " was let through";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kBug);
    for (const auto& part : says) {
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << part << " is not in " << error.what();
    }
  }
}

TEST(CheckingGroup, LetsRightCallsThrough) {
  with_checked(3, [](Group& group) {
    EXPECT_EQ(group.transport(), "shm");
    const at::Tensor data = group.allocate(8, at::kFloat);
    data.fill_(group.rank() + 1);
    group.all_reduce(data);
    EXPECT_EQ(data.sum().item<float>(), 48);
    const int64_t own = split_evenly(8, 3)[static_cast<size_t>(group.rank())];
    const at::Tensor part = at::zeros({own});
    group.reduce_scatter(data, part, ReduceOp::kMean);
    group.all_gather(part, data);
    EXPECT_EQ(data.sum().item<float>(), 48);
    group.gather(at::zeros({2}), group.rank() == 1 ? at::zeros({6}) : at::Tensor(), 1);
    const Work work = group.start(broadcast(data, 2));
    group.barrier();
    work.wait();
  });
}

TEST(CheckingGroup, UnevenExchangesAreRight) {
  with_checked(2, [](Group& group) {
    // Rank 0 gives 1 and 3 elements, rank 1 gives 2 and 4.
    const bool first = group.rank() == 0;
    const at::Tensor out = at::zeros({first ? 3 : 7});
    const std::vector<int64_t> gives = first ? std::vector<int64_t>{1, 3} : std::vector<int64_t>{2, 4};
    const std::vector<int64_t> takes = first ? std::vector<int64_t>{1, 2} : std::vector<int64_t>{3, 4};
    group.run(all_to_all(at::full({first ? 4 : 6}, 1.0F), out, gives, takes));
    EXPECT_EQ(out.sum().item<float>(), first ? 3 : 7);
  });
}

TEST(CheckingGroup, NamesWhoCalledWhatAndTheMajority) {
  with_checked(4, [](Group& group) {
    const at::Tensor data = at::zeros({1024});
    group.barrier();
    const auto differ = [&] {
      if (group.rank() == 2) {
        group.broadcast(data.narrow(0, 0, 16), 0);
      } else {
        group.all_reduce(data, ReduceOp::kMean);
      }
    };
    expect_refused(group, differ,
                   {"the ranks made different calls", "ranks 0, 1, 3 called all_reduce of 4096 bytes (Float, mean)",
                    "rank 2 called broadcast of 64 bytes (Float, root 0)", "call 2 of group world"});
    group.all_reduce(data);  // nobody has made the wrong call, and all go on
  });
}

struct Difference {
  const char* name;
  std::function<void(Group&, bool first)> call;
  std::vector<std::string> says;
};

TEST(CheckingGroup, FindsEveryDifference) {
  const Difference cases[] = {
      {"operation",
       [](Group& g, bool first) { first ? g.barrier() : g.all_reduce(at::zeros({2})); },
       {"rank 0 called barrier; rank 1 called all_reduce of 8 bytes (Float, sum)"}},
      {"size", [](Group& g, bool first) { g.all_reduce(at::zeros({first ? 3 : 2})); }, {"12 bytes", "8 bytes"}},
      {"type",
       [](Group& g, bool first) { g.all_reduce(at::zeros({2}, first ? at::kFloat : at::kInt)); },
       {"Float", "Int"}},
      {"reduction",
       [](Group& g, bool first) { g.all_reduce(at::zeros({2}), first ? ReduceOp::kMax : ReduceOp::kMin); },
       {"(Float, max)", "(Float, min)"}},
      {"root", [](Group& g, bool first) { g.broadcast(at::zeros({2}), first ? 0 : 1); }, {"root 0", "root 1"}},
      {"counts",
       [](Group& g, bool first) {
         const std::vector<int64_t> counts = first ? std::vector<int64_t>{1, 3} : std::vector<int64_t>{3, 1};
         g.run(all_gather(at::zeros({1}), at::zeros({4}), counts));
       },
       {"with other counts per rank"}},
      {"allocation",
       [](Group& g, bool first) { g.allocate(first ? 10 : 11, at::kFloat); },
       {"allocate of 40 bytes", "allocate of 44 bytes"}},
      {"common allocation",
       [](Group& g, bool first) { g.allocate_common(first ? 10 : 11, at::kFloat); },
       {"allocate of 40 bytes", "allocate of 44 bytes"}},
      {"allocation and call",
       [](Group& g, bool first) { first ? (void)g.allocate(10, at::kFloat) : g.barrier(); },
       {"allocate of 40 bytes", "barrier"}},
      {"parts of a gather",
       [](Group& g, bool first) { g.gather(at::zeros({first ? 2 : 3}), first ? at::zeros({4}) : at::Tensor(), 0); },
       {"the parts of this gather do not fit", "give 20 bytes in all and take 16"}},
  };
  for (const Difference& one : cases) {
    SCOPED_TRACE(one.name);
    with_checked(2,
                 [&](Group& group) { expect_refused(group, [&] { one.call(group, group.rank() == 0); }, one.says); });
  }
}

TEST(CheckingGroup, SendAndRecvAreNoCommonCalls) {
  with_checked(3, [](Group& group) {
    const at::Tensor data = at::full({4}, static_cast<float>(group.rank()));
    if (group.rank() == 0) group.send(data, 1);
    if (group.rank() == 1) group.recv(data, 0);
    if (group.rank() == 1) {
      EXPECT_EQ(data.sum().item<float>(), 0) << "it came from rank 0";
    }
    group.all_reduce(data);
    EXPECT_EQ(data.sum().item<float>(), 8);
  });
}

TEST(CheckingGroup, PartsAreCheckedAmongThemselves) {
  with_checked(4, [](Group& group) {
    const std::vector<int> ranks = group.rank() % 2 == 0 ? std::vector{0, 2} : std::vector{1, 3};
    const auto part = group.split(ranks, group.rank() % 2 == 0 ? "even" : "odd");
    const auto differ = [&] { group.rank() == 3 ? part->barrier() : part->all_reduce(at::zeros({2})); };
    if (group.rank() % 2 == 0) {
      differ();
    } else {
      expect_refused(*part, differ, {"group odd", "rank 1 called barrier"});
    }
    group.barrier();
  });
}

TEST(CheckingGroup, AMissingRankIsNamedWithTheCallThatWaited) {
  const auto body = [](Group& group) {
    if (group.rank() == 1) return;
    try {
      group.all_reduce(at::zeros({4}));
      ADD_FAILURE() << "nobody was missed";
    } catch (const PeerLost& lost) {
      EXPECT_EQ(lost.rank(), 1);
      EXPECT_EQ(lost.loss().waiting_in, "all_reduce of 16 bytes (Float, sum), call 1");
      EXPECT_EQ(lost.loss().group, "world");
    }
  };
  with_checked(2, body);
}

TEST(Fingerprint, SurvivesTheWay) {
  Collective call = reduce_scatter(at::zeros({8}), at::zeros({4}), ReduceOp::kMin);
  complete(call, 1, 2);
  const Fingerprint print = fingerprint_of(call, 77);
  const Fingerprint back = from_words(to_words(print));
  EXPECT_TRUE(back.agrees_with(print));
  EXPECT_EQ(to_words(back), to_words(print));
  EXPECT_EQ(describe(back), "reduce_scatter of 32 bytes (Float, min)");
}

TEST(Fingerprint, LongListsOfRanksAreCut) {
  std::vector<Fingerprint> prints(100, fingerprint_of(barrier(), 1));
  prints[40] = fingerprint_of(all_reduce(at::zeros({1})), 1);
  try {
    require_agreement(prints, "world");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(
        error.text().what,
        "ranks 0, 1, 2, 3, 4, 5, 6, 7 and 91 more called barrier; rank 40 called all_reduce of 4 bytes (Float, sum)");
  }
}

}  // namespace
}  // namespace weft::comm
