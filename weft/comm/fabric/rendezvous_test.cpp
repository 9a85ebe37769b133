#include "weft/comm/fabric/rendezvous.h"

#include <gtest/gtest.h>

#include "tests/support/ranks.h"
#include "weft/base/env.h"
#include "weft/base/hash.h"
#include "weft/comm/fabric/local_socket.h"
#include "weft/comm/fabric/test_data_impl.h"

namespace weft::fabric {
namespace {

using test::RankContext;
using test::run_ranks_as_threads;

Deadline join_deadline() { return Deadline::after(20.0 * test::kSlowdown); }

// The whole text of what joining throws; "" when it succeeds.
std::string refusal_of(const Membership& self, Deadline deadline) {
  try {
    const Rendezvous rendezvous(self, deadline);
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

std::string address_of(const std::string& run) { return cat("weft-fabric-", to_hex(hash128(bytes_of(run)))); }

void expect_part(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << text << "\nhas no: " << part;
}

TEST(LocalSocket, CarriesADescriptorAndTellsTheEnd) {
  const std::string name = fresh_run_id();
  EXPECT_FALSE(connect_local(name));
  const auto listener = listen_local(name);
  ASSERT_TRUE(listener);
  EXPECT_FALSE(listen_local(name));
  EXPECT_FALSE(accept_local(listener->get()));
  auto here = connect_local(name);
  const auto there = accept_local(listener->get());
  ASSERT_TRUE(here && there);

  const Segment segment = Segment::create(4096, "weft-fabric-test");
  EXPECT_EQ(send_message(here->get(), 17, segment.fd()), Status::kOk);
  int number = 0;
  UniqueFd fd;
  ASSERT_EQ(receive_message(there->get(), number, fd, join_deadline()), Status::kOk);
  EXPECT_EQ(number, 17);
  segment.data()[7] = std::byte{3};
  EXPECT_EQ(Segment::adopt(std::move(fd), 4096).data()[7], std::byte{3});

  EXPECT_EQ(receive_message(there->get(), number, fd, Deadline::after(0.01)), Status::kLate);
  EXPECT_EQ(send_message(here->get(), char{1}), Status::kOk);
  EXPECT_EQ(receive_message(there->get(), number, fd, join_deadline()), Status::kClosed) << "a packet of another size";
  here->reset();
  EXPECT_EQ(receive_message(there->get(), number, fd, join_deadline()), Status::kClosed);
  EXPECT_EQ(send_message(there->get(), 1), Status::kClosed);
}

TEST(Rendezvous, RanksOfOneRunFindEachOtherAndNoOther) {
  const std::string runs[] = {fresh_run_id(), fresh_run_id()};
  const size_t num_fds = num_open_fds();
  run_ranks_as_threads(6, [&](RankContext& ctx) {
    const Membership self{runs[ctx.rank() % 2], ctx.rank() / 2, 3};
    Rendezvous rendezvous(self, join_deadline());
    Control& control = rendezvous.control();
    control.begin({Operation::kAllocate, 0, 3 * 4096});
    const Segment segment =
        rendezvous.share_segment(size_t{3} * 4096, "weft-fabric-test", Backing::kNow, join_deadline());
    segment.data()[self.rank] = static_cast<std::byte>(ctx.rank() + 1);
    control.begin({Operation::kBarrier});
    control.barrier(join_deadline());
    for (int rank = 0; rank < 3; ++rank) {
      EXPECT_EQ(segment.data()[rank], static_cast<std::byte>(2 * rank + ctx.rank() % 2 + 1));
    }
  });
  EXPECT_EQ(num_open_fds(), num_fds);
  EXPECT_EQ(num_mapped_segments(), 0U);
}

TEST(Rendezvous, TwoRanksWithOneNumberAreNamedToAll) {
  const std::string run = fresh_run_id();
  run_ranks_as_threads(3, [&](RankContext& ctx) {
    const std::string text = refusal_of({run, ctx.rank() == 0 ? 0 : 1, 4}, join_deadline());
    expect_part(text, "rank 1 of 4 does not belong to this run");
    expect_part(text, "two ranks have the number 1");
  });
}

TEST(Rendezvous, TwoRanksZeroAreTold) {
  const std::string run = fresh_run_id();
  const auto first = listen_local(address_of(run));
  ASSERT_TRUE(first);
  expect_part(refusal_of({run, 0, 2}, join_deadline()), "two ranks of this run have the number 0");
}

TEST(Rendezvous, AnotherWorldIsRefused) {
  const std::string run = fresh_run_id();
  run_ranks_as_threads(2, [&](RankContext& ctx) {
    const std::string text = refusal_of({run, ctx.rank(), 2 + ctx.rank()}, join_deadline());
    expect_part(text, "it expects 3 ranks, rank 0 expects 2");
  });
}

TEST(Rendezvous, MissingRanksAreNamedByAllAtTheDeadline) {
  const std::string run = fresh_run_id();
  run_ranks_as_threads(3, [&](RankContext& ctx) {
    const Stopwatch watch;
    const std::string text = refusal_of({run, ctx.rank(), 5}, Deadline::after(0.5));
    expect_part(text, "rank 3 of 5 never came");
    expect_part(text, "not there by the deadline: ranks 3, 4");
    EXPECT_GE(watch.elapsed_s(), 0.4);
    EXPECT_LT(watch.elapsed_s(), 5.0 * test::kSlowdown);
  });
}

TEST(Rendezvous, WithoutRankZeroNobodyIsThere) {
  const std::string text = refusal_of({fresh_run_id(), 1, 2}, Deadline::after(0.05));
  expect_part(text, "rank 0 of 2 never came");
}

TEST(Rendezvous, ARankOutsideTheWorldIsRefused) {
  expect_part(refusal_of({fresh_run_id(), 2, 2}, join_deadline()), "rank 2 in a world of 2");
  expect_part(refusal_of({fresh_run_id(), 0, 0}, join_deadline()), "rank 0 in a world of 0");
}

TEST(Rendezvous, AStrangerDoesNotDisturb) {
  const std::string run = fresh_run_id();
  run_ranks_as_threads(3, [&](RankContext& ctx) {
    if (ctx.rank() < 2) {
      if (ctx.rank() == 1) ctx.get("stranger was here");
      EXPECT_EQ(refusal_of({run, ctx.rank(), 2}, join_deadline()), "");
      return;
    }
    std::optional<UniqueFd> socket;
    while (!socket) socket = connect_local(address_of(run));
    send_message(socket->get(), 99);
    ctx.set("stranger was here", "");
  });
}

}  // namespace
}  // namespace weft::fabric
