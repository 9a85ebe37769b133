#include "weft/config/version.h"

#include <gtest/gtest.h>

#include "weft/base/error.h"

namespace weft::config {
namespace {

TEST(Version, ReadsWhatPeopleWrite) {
  EXPECT_EQ(parse_version("0.18.4"), (Version{0, 18, 4}));
  EXPECT_EQ(parse_version("deepspeed-0.18.4"), (Version{0, 18, 4}));
  EXPECT_EQ(parse_version("0.19.8"), kNewestDeepSpeed);
  EXPECT_EQ(parse_version("0.9.5"), kOldestDeepSpeed);
}

TEST(Version, TakesASeriesAsItsLast) {
  const Version last = parse_version("deepspeed-0.18");
  EXPECT_GT(last, (Version{0, 18, 9}));
  EXPECT_LT(last, (Version{0, 19, 0}));
  EXPECT_EQ(format_version(last), "0.18");
  EXPECT_EQ(parse_version("0.19"), kNewestDeepSpeed);
  EXPECT_GT(parse_version("0.9"), kOldestDeepSpeed);
}

TEST(Version, PrintsWhatItReads) {
  for (const char* text : {"0.18.4", "0.9.5", "0.14"}) EXPECT_EQ(format_version(parse_version(text)), text);
}

TEST(Version, RefusesWhatIsNone) {
  for (const char* text : {"", "0", "0.", ".18", "0.18.", "0.18.4.1", "0.x", "latest", "v0.18", "-0.18", "0.-18",
                           "99999999999.1", "deepspeed-"}) {
    try {
      parse_version(text);
      ADD_FAILURE() << text;
    } catch (const Error& error) {
      EXPECT_EQ(error.exit_code(), 2);
      EXPECT_NE(error.text().title.find("is not a version"), std::string::npos) << error.what();
      EXPECT_NE(error.text().fix.find("0.9.5 to 0.19.8"), std::string::npos) << error.what();
    }
  }
}

TEST(Version, RefusesWhatIsNotKnown) {
  for (const char* text : {"0.9.4", "0.8", "0.19.9", "0.20", "1.0.0"}) {
    try {
      parse_version(text);
      ADD_FAILURE() << text;
    } catch (const Error& error) {
      EXPECT_NE(error.text().title.find("is not known"), std::string::npos) << error.what();
    }
  }
}

}  // namespace
}  // namespace weft::config
