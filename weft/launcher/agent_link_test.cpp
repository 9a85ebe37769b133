#include "weft/launcher/agent_link.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>

#include "weft/base/error.h"
#include "weft/base/fd.h"

namespace weft::launcher {
namespace {

class AgentLinkTest : public testing::Test {
 protected:
  AgentLinkTest() {
    int ends[2];
    if (::pipe(ends) != 0) throw IoError("make a pipe", "", errno);
    ours_.reset(ends[1]);
    theirs_.reset(ends[0]);
  }

  Orders after(std::string_view bytes) {
    EXPECT_EQ(::write(ours_.get(), bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
    return take();
  }
  Orders take() {
    pollfd polled = link().watched();
    ::poll(&polled, 1, 0);
    return link().take(polled);
  }
  AgentLink& link() {
    if (!link_) link_.emplace(theirs_.get());
    return *link_;
  }
  static std::string bytes_of(const Frame& frame) {
    std::string out;
    append_frame(out, frame);
    return out;
  }

  UniqueFd ours_, theirs_;
  std::optional<AgentLink> link_;
};

TEST_F(AgentLinkTest, OrdersArrive) {
  const auto orders =
      after(bytes_of({.kind = FrameKind::kBeat}) + bytes_of({.kind = FrameKind::kSignal, .number = SIGINT}) +
            bytes_of({.kind = FrameKind::kBeat}));
  EXPECT_EQ(orders.signals, std::vector<int>{SIGINT});
  EXPECT_EQ(orders.num_beats, 2);
  EXPECT_FALSE(orders.kill);
  EXPECT_FALSE(orders.job.has_value());
  EXPECT_TRUE(after(bytes_of({.kind = FrameKind::kKill})).kill);
  const auto job = after(bytes_of({.kind = FrameKind::kJob, .bytes = bytes_of_job({.launch = {.argv = {"x"}}})})).job;
  ASSERT_TRUE(job.has_value());
  EXPECT_EQ(job->launch.argv, std::vector<std::string>{"x"});
}

TEST_F(AgentLinkTest, SilenceForAMomentIsNoOrder) {
  const auto orders = take();
  EXPECT_TRUE(orders.signals.empty());
  EXPECT_FALSE(link().gone());
  EXPECT_FALSE(link().silence().is_never());
}

TEST_F(AgentLinkTest, TheEndOfTheConnectionIsTheOrderToEndOnce) {
  take();
  ours_.reset();
  EXPECT_EQ(take().signals, std::vector<int>{SIGTERM});
  EXPECT_TRUE(link().gone());
  EXPECT_EQ(link().watched().fd, -1);
  EXPECT_TRUE(take().signals.empty());
}

TEST_F(AgentLinkTest, OtherBytesAreRefused) { EXPECT_THROW(after("hello there\n"), Error); }

}  // namespace
}  // namespace weft::launcher
