#include "weft/launcher/host_list.h"

#include <gtest/gtest.h>

#include <functional>

#include "tests/support/temp_dir.h"
#include "tests/support/text.h"
#include "weft/base/env.h"
#include "weft/base/error.h"

namespace weft::launcher {
namespace {

using test::has;

using Hosts = std::vector<Host>;

std::string refusal(const std::function<Hosts()>& body) {
  try {
    body();
  } catch (const Error& error) {
    EXPECT_EQ(error.exit_code(), 2);
    return error.what();
  }
  return "accepted";
}

TEST(HostList, NamesAndRanks) {
  const std::pair<std::string, Hosts> cases[] = {
      {"a", {{"a", 3}}},
      {"a,b:2", {{"a", 3}, {"b", 2}}},
      {" a , me@b.example.org:12 ", {{"a", 3}, {"me@b.example.org", 12}}},
      {"10.0.0.1:1,fe80::1,[fe80::2]:4,[fe80::3]", {{"10.0.0.1", 1}, {"fe80::1", 3}, {"fe80::2", 4}, {"fe80::3", 3}}},
  };
  for (const auto& [text, hosts] : cases) EXPECT_EQ(parse_hosts(text, 3), hosts) << text;
}

TEST(HostList, RefusesWithTheReason) {
  const std::pair<std::string, std::string> cases[] = {
      {"", "not the name of a host"},
      {"a,,b", "not the name of a host"},
      {"a,", "not the name of a host"},
      {"a:0", "'0'; 1 to 1024"},
      {"a:1025", "'1025'; 1 to 1024"},
      {"a:two", "'two'; 1 to 1024"},
      {"a:", "''; 1 to 1024"},
      {"a:-1", "'-1'; 1 to 1024"},
      {"a,b,a", "host a is there twice"},
      {"-oProxyCommand=x", "not the name of a host"},
      {"a b", "not the name of a host"},
      {"a;id", "not the name of a host"},
      {"me@", "not the name of a host"},
  };
  for (const auto& [text, reason] : cases) {
    const std::string message = refusal([&] { return parse_hosts(text, 1); });
    EXPECT_TRUE(has(message, reason)) << text << ": " << message;
  }
}

class Hostfile : public testing::Test {
 protected:
  std::string write(const std::string& text) {
    write_file(Env::posix(), folder_ / "hosts", bytes_of(text));
    return folder_ / "hosts";
  }

  test::TempDir folder_;
};

TEST_F(Hostfile, AllFormsOfALine) {
  const std::string path = write("# all of them\n\nnode0 slots=4\n  node1:2   # two\r\nnode2\n\tuser@node3\tslots=1");
  EXPECT_EQ(read_hostfile(path, 8), (Hosts{{"node0", 4}, {"node1", 2}, {"node2", 8}, {"user@node3", 1}}));
}

TEST_F(Hostfile, ErrorsNameTheLine) {
  const std::pair<std::string, std::string> cases[] = {
      {"a\nb slots=0\n", "hosts:2"},
      {"a slots=x\n", "hosts:1"},
      {"a slots=\n", "''; 1 to 1024"},
      {"a\n\nb max_slots=4\n", "'max_slots=4'"},
      {"a slots=1 slots=2\n", "'slots=2'"},
      {"a:2 slots=2\n", "the number of ranks is there twice"},
      {"a\nb\n\na slots=2\n", "first in "},
      {"a\nb\n\na slots=2\n", "hosts:4"},
      {"", "the hostfile names no host"},
      {"# nothing\n\n", "the hostfile names no host"},
      {"-x\n", "hosts:1"},
  };
  for (const auto& [text, words] : cases) {
    const std::string path = write(text), message = refusal([&] { return read_hostfile(path, 1); });
    EXPECT_TRUE(has(message, words)) << text << ": " << message;
  }
  EXPECT_THROW(read_hostfile(folder_ / "missing", 1), Error);
}

TEST(HostAddress, IsWhatTheOthersCanReach) {
  EXPECT_EQ(address_of({.name = "me@node0"}), "node0");
  EXPECT_EQ(address_of({.name = "me@fe80::1"}), "fe80::1");
  EXPECT_TRUE(is_loopback({.name = "me@localhost"}));
  EXPECT_TRUE(is_loopback({.name = "127.0.1.1"}));
  EXPECT_FALSE(is_loopback({.name = "node127"}));
}

}  // namespace
}  // namespace weft::launcher
