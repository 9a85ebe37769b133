#include "weft/comm/c10d/store.h"

#include <gtest/gtest.h>
#include <signal.h>

#include "tests/support/ranks.h"
#include "weft/base/text.h"

namespace weft::comm {
namespace {

Deadline soon() { return Deadline::after(20.0); }

Error error_of(const std::function<void()>& what) {
  try {
    what();
  } catch (const Error& error) {
    return error;
  }
  ADD_FAILURE() << "no error";
  return {ErrorKind::kBug, {}};
}

void expect_a_store(const Store& one, const Store& other) {
  EXPECT_EQ(other.find("a"), std::nullopt);
  one.set("a", "first");
  EXPECT_EQ(other.find("a"), "first");
  one.set("a", std::string("two\0bytes", 9));
  EXPECT_EQ(other.get("a", soon()), std::string("two\0bytes", 9));
  EXPECT_EQ(one.compare_set("c", "", "mine"), "mine");
  EXPECT_EQ(other.compare_set("c", "", "yours"), "mine");
  EXPECT_EQ(other.compare_set("c", "mine", "ours"), "ours");
  EXPECT_EQ(one.add("n", 5), 5);
  EXPECT_EQ(other.add("n", -2), 3);
  EXPECT_EQ(other.get_all({"a", "c"}), (std::vector<std::string>{std::string("two\0bytes", 9), "ours"}));
  const Store inner = one.with_prefix("x").with_prefix("y");
  inner.set("a", "inner");
  EXPECT_EQ(other.find("x/y/a"), "inner");
  EXPECT_NE(other.find("a"), "inner");
}

TEST(Store, InProcess) {
  const Store store = Store::in_process();
  expect_a_store(store, store);
}

TEST(Store, OverTcp) {
  const Store server = Store::tcp({"127.0.0.1", 0}, true, soon());
  const Store client = Store::tcp({"localhost", server.endpoint().port}, false, soon());
  expect_a_store(server, client);
  EXPECT_EQ(client.own_address(), address_towards(client.endpoint()));
}

TEST(Store, AGetWaitsAndEnds) {
  const Store store = Store::in_process();
  std::thread late([&] { store.set("late", "came"); });
  EXPECT_EQ(store.get("late", soon()), "came");
  late.join();
  const Error error = error_of([&] { store.get("never", Deadline::after(0.05)); });
  EXPECT_EQ(error.text().title, "nobody set 'never' in the store by the deadline");
}

TEST(Store, ManyThreadsOnOneConnection) {
  const Store server = Store::tcp({"127.0.0.1", 0}, true, soon());
  test::run_ranks_as_threads(4, [&](test::RankContext& ctx) {
    for (int i = 0; i < 50; ++i) server.add("n", 1);
    server.set(cat("done ", ctx.rank()), "");
    for (int rank = 0; rank < 4; ++rank) server.get(cat("done ", rank), soon());
    EXPECT_EQ(server.add("n", 0), 200);
  });
}

TEST(Store, APortInUseIsNamed) {
  const Store server = Store::tcp({"127.0.0.1", 0}, true, soon());
  const int port = server.endpoint().port;
  const Error error = error_of([&] { Store::tcp({"127.0.0.1", port}, true, soon()); });
  EXPECT_EQ(error.exit_code(), 2);
  EXPECT_EQ(error.text().title, cat("port ", port, " is in use on this host"));
  EXPECT_NE(error.text().fix.find("another port"), std::string::npos);
}

TEST(Store, AHostThatDoesNotResolveIsNamed) {
  const Error error = error_of([] { Store::tcp({"no-such-host.invalid", 29500}, false, Deadline::after(0.5)); });
  EXPECT_EQ(error.exit_code(), 2);
  EXPECT_EQ(error.text().title, "the host 'no-such-host.invalid' cannot be found");
}

TEST(Store, NobodyListeningIsToldAtTheDeadline) {
  const int port = port_of(listen_on(0).get());
  const Stopwatch watch;
  const Error error = error_of([&] { Store::tcp({"127.0.0.1", port}, false, Deadline::after(0.3)); });
  EXPECT_EQ(error.exit_code(), 1);
  EXPECT_EQ(error.text().title, cat("nobody listens at 127.0.0.1:", port));
  EXPECT_NE(error.text().what.find("Connection refused"), std::string::npos) << error.what();
  EXPECT_LT(watch.elapsed_s(), 10);
}

TEST(Store, AListenerThatIsNoStoreDoesNotHoldUsUp) {
  const UniqueFd mute = listen_on(0);
  const int port = port_of(mute.get());
  const Error error = error_of([&] { Store::tcp({"127.0.0.1", port}, false, Deadline::after(1.0)); });
  EXPECT_EQ(error.text().title, cat("the store at 127.0.0.1:", port, " is out of reach"));
}

TEST(Store, PortsAreChecked) {
  EXPECT_EQ(error_of([] { Store::tcp({"127.0.0.1", 70000}, true, soon()); }).text().title, "70000 is no port");
}

WEFT_RANK_MAIN(serves_a_store) {
  const Store server = Store::tcp({"127.0.0.1", 0}, true, soon());
  self.store().set("port", std::to_string(server.endpoint().port));
  self.store().get("never");
  return 0;
}

// How a client finds out: at once when the server's process is gone, within its limit when it is stopped.
TEST(Store, AServerThatIsGoneOrStoppedIsLost) {
  for (const int signal : {SIGKILL, SIGSTOP}) {
    test::RankProcesses server("serves_a_store", 1, {.expected = {{0, {.signal = SIGKILL}}}});
    server.start();
    const int port = std::stoi(server.store().get("port"));
    const Store client = Store::tcp({"127.0.0.1", port}, false, soon()).with_limit(0.5);
    client.set("a", "1");
    ASSERT_TRUE(server.signal(0, signal));
    const Stopwatch watch;
    EXPECT_THROW(while (watch.elapsed_s() < 20) client.add("n", 1), StoreLost);
    EXPECT_LT(watch.elapsed_s(), 5.0 * test::kSlowdown);
    EXPECT_THROW(client.find("a"), StoreLost);
    server.signal(0, SIGKILL);
    expect_all_ok(server.wait());
  }
}

}  // namespace
}  // namespace weft::comm
