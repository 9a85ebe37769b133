#include "weft/comm/init_settings.h"

#include <gtest/gtest.h>

#include <map>

#include "weft/base/error.h"

namespace weft {
namespace {

using config::Transport;

comm::Lookup lookup_in(std::map<std::string, std::string> values) {
  return [values = std::move(values)](const char* name) {
    const auto found = values.find(name);
    return found == values.end() ? std::nullopt : std::optional(found->second);
  };
}

TEST(InitSettings, TheEnvironmentGoesBeforeTheOptions) {
  const InitOptions options{.transport = Transport::kGloo, .deadline_s = 5};
  const comm::RankIdentity self{.run_id = "r7"};
  const InitSettings plain = read_init_settings(options, lookup_in({}), self);
  EXPECT_EQ(plain.transport, Transport::kGloo);
  EXPECT_EQ(plain.deadline_s, 5);
  EXPECT_EQ(plain.flight_dir, "weft_flight/r7");
  EXPECT_EQ(plain.attempt, "0");
  const auto set = lookup_in({{"WEFT_TRANSPORT", "shm"},
                              {"WEFT_DEADLINE_S", "1.5"},
                              {"WEFT_FLIGHT_DIR", "here"},
                              {"WEFT_CHECK_CALLS", "1"},
                              {"TORCHELASTIC_RESTART_COUNT", "2"},
                              {"TORCHELASTIC_USE_AGENT_STORE", "True"}});
  const InitSettings settings = read_init_settings(options, set, self);
  EXPECT_EQ(settings.transport, Transport::kShm);
  EXPECT_EQ(settings.deadline_s, 1.5);
  EXPECT_EQ(settings.flight_dir, "here");
  EXPECT_TRUE(settings.check_calls && settings.agent_has_store);
  EXPECT_EQ(settings.attempt, "2");
}

TEST(InitSettings, RefusesValuesThatCannotBe) {
  const std::pair<const char*, const char*> cases[] = {
      {"WEFT_TRANSPORT", "mpi"},  {"WEFT_TRANSPORT", ""},        {"WEFT_DEADLINE_S", "0"},
      {"WEFT_DEADLINE_S", "-1"},  {"WEFT_DEADLINE_S", "10s"},    {"WEFT_DEADLINE_S", "nan"},
      {"WEFT_DEADLINE_S", "1e9"}, {"WEFT_JOIN_DEADLINE_S", "x"}, {"WEFT_CHECK_CALLS", "yes"}};
  for (const auto& [name, value] : cases) {
    try {
      read_init_settings({}, lookup_in({{name, value}}), {});
      ADD_FAILURE() << "took " << name << "=" << value;
    } catch (const Error& error) {
      EXPECT_EQ(error.exit_code(), 2);
      EXPECT_NE(std::string(error.what()).find(name), std::string::npos) << error.what();
    }
  }
}

}  // namespace
}  // namespace weft
