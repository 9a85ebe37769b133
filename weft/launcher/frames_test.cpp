#include "weft/launcher/frames.h"

#include <gtest/gtest.h>

#include <tuple>
#include <vector>

#include "weft/base/error.h"

namespace weft::launcher {
namespace {

using Seen = std::vector<std::tuple<char, int, std::string>>;

// What arrives when the stream comes in pieces of `piece` bytes.
Seen read_in_pieces(const std::string& stream, size_t piece, FrameReader& reader) {
  Seen seen;
  for (size_t at = 0; at < stream.size(); at += piece) {
    reader.feed(std::string_view(stream).substr(at, piece), [&](const Frame& frame) {
      seen.emplace_back(static_cast<char>(frame.kind), frame.number, std::string(frame.bytes));
    });
  }
  return seen;
}

TEST(Frames, ArriveWholeHoweverTheyAreCut) {
  const Seen sent = {
      {'h', 40001, "1.0"}, {'o', 3, std::string("a\n\0b", 4)}, {'e', 0, ""}, {'s', 15, ""}, {'d', -1, "o 3 17\n"}};
  std::string stream = "Welcome!\n<weft agent" + stream_start();
  for (const auto& [kind, number, bytes] : sent) {
    append_frame(stream, {.kind = static_cast<FrameKind>(kind), .number = number, .bytes = bytes});
  }
  for (const size_t piece : {1, 2, 3, 7, 50, 1000}) {
    FrameReader reader(true);
    EXPECT_EQ(read_in_pieces(stream, piece, reader), sent) << piece;
    EXPECT_EQ(reader.noise(), "Welcome!\n<weft agent") << piece;
    EXPECT_TRUE(reader.started());
  }
}

TEST(Frames, NoStartNoFrames) {
  FrameReader reader(true);
  EXPECT_EQ(read_in_pieces("This account is currently not available.\nh 1 0\n", 5, reader), Seen());
  EXPECT_FALSE(reader.started());
  EXPECT_NE(reader.noise().find("account"), std::string::npos);
}

TEST(Frames, AnotherProtocolDoesNotStart) {
  FrameReader reader(true);
  EXPECT_EQ(read_in_pieces("<weft agent 999>\nh 1 0\n", 5, reader), Seen());
}

TEST(Frames, MuchNoiseIsForgotten) {
  FrameReader reader(true);
  std::string stream(1 << 20, 'x');
  stream.append("the end").append(stream_start());
  read_in_pieces(stream, 1000, reader);
  EXPECT_TRUE(reader.started());
  EXPECT_LE(reader.noise().size(), 4096u);
  EXPECT_TRUE(reader.noise().ends_with("the end"));
}

TEST(Frames, OtherBytesAreRefused) {
  const std::string longer_than_any_header(100, '1');
  for (const std::string bad : {"hello there\n", "x 1 0\n", "o 1\n", "o  1 0\n", "o 1 -1\n", "o 1 0x\n",
                                "o 1 999999999999\n", "\n", "o 99999999999 0\n", "o 1 0 \n"}) {
    FrameReader reader(false);
    EXPECT_THROW(read_in_pieces(bad, 100, reader), Error) << bad;
  }
  FrameReader reader(false);
  EXPECT_THROW(read_in_pieces(longer_than_any_header, 100, reader), Error);
}

}  // namespace
}  // namespace weft::launcher
