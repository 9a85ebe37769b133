#include "weft/config/source.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <functional>
#include <optional>

#include "tests/support/temp_dir.h"
#include "weft/config/test_reading_impl.h"

namespace weft::config {
namespace {

using test::TempDir;

TEST(Source, CountsLinesAsPythonsTextModeDoes) {
  const Source source("f", "a\nb\r\nc\rd");
  EXPECT_EQ(source.line_count(), 4);
  EXPECT_EQ(source.line(1), "a");
  EXPECT_EQ(source.line(2), "b");
  EXPECT_EQ(source.line(3), "c");
  EXPECT_EQ(source.line(4), "d");
  EXPECT_EQ(source.place(7), (Place{4, 1}));
}

TEST(Source, CountsColumnsInCharacters) {
  const Source source("f", "键: x\n  é!");
  EXPECT_EQ(source.place(5), (Place{1, 4}));
  EXPECT_EQ(source.place(11), (Place{2, 4}));
  EXPECT_EQ(source.where({5, 6}), "f:1:4");
}

TEST(Source, DoesNotCountTheByteOrderMark) {
  const Source source("f", "\xEF\xBB\xBF{x");
  EXPECT_EQ(source.place(3), (Place{1, 1}));
  EXPECT_EQ(source.place(4), (Place{1, 2}));
}

TEST(Source, KnowsThePlaceOfTheEnd) {
  EXPECT_EQ(Source("f", "").place(0), (Place{1, 1}));
  EXPECT_EQ(Source("f", "a\n").place(2), (Place{2, 1}));
}

TEST(ReadSource, ReadsAFile) {
  const TempDir dir;
  write_file(Env::posix(), dir / "ds.json", bytes_of("{}\n"));
  const SourcePtr source = read_source(Env::posix(), dir / "ds.json");
  EXPECT_EQ(source->text(), "{}\n");
  EXPECT_EQ(source->name(), dir / "ds.json");
}

TEST(ReadSource, NamesTheFileThatWasMeant) {
  const TempDir dir;
  write_file(Env::posix(), dir / "ds_config.json", bytes_of("{}"));
  expect_refused([&] { read_source(Env::posix(), dir / "ds_confg.json"); }, "syntax/missing-file", "does not exist",
                 "did you mean " + dir / "ds_config.json");
  expect_refused([&] { read_source(Env::posix(), dir / "none/x.json"); }, "syntax/missing-file", "does not exist",
                 "spelling");
}

TEST(ReadSource, NamesTheConfigsInAFolder) {
  const TempDir dir;
  for (const char* name : {"a.json", "b.json", "c.yaml", "d.json", "e.json", "f.json", "notes.txt"})
    write_file(Env::posix(), dir / name, bytes_of("{}"));
  expect_refused([&] { read_source(Env::posix(), dir.path().string()); }, "syntax/directory", "folder",
                 "a.json, b.json, c.yaml, d.json, e.json");
  const auto error = read_error_of([&] { read_source(Env::posix(), dir.path().string()); });
  EXPECT_EQ(error->fix().en.find("f.json"), std::string::npos);
}

TEST(ReadSource, RefusesWhatIsTooLargeWithoutReadingIt) {
  const TempDir dir;
  Env::posix().open(dir / "big.json", OpenMode::kCreate)->truncate(uint64_t{1} << 40);
  expect_refused([&] { read_source(Env::posix(), dir / "big.json"); }, "syntax/too-large", "1.0 TiB", "checkpoint");
}

TEST(ReadSource, RefusesDevicesAndPipes) {
  const TempDir dir;
  ASSERT_EQ(::mkfifo((dir / "pipe").c_str(), 0600), 0);
  for (const std::string& path : {std::string("/dev/zero"), dir / "pipe"})
    expect_refused([&] { read_source(Env::posix(), path); }, "syntax/directory", "device or a pipe", "file");
}

TEST(CheckedSource, NamesTheEncodingAndThePlace) {
  const auto check = [](const std::string& text) { return [text] { checked_source("f", text); }; };
  expect_refused(check("\xFF\xFE{"), "syntax/encoding", "UTF-16", "UTF-8");
  expect_refused(check("\xFE\xFF{"), "syntax/encoding", "UTF-16", "UTF-8");
  expect_refused(check(std::string("\xFF\xFE\0\0", 4)), "syntax/encoding", "UTF-32", "UTF-8");
  expect_refused(check(std::string("{\0}", 3)), "syntax/binary", "NUL", "text");
  expect_refused(check("{\n # \xC4\xE3"), "syntax/encoding", "not UTF-8", "GBK");
  const auto error = read_error_of(check("{\n # \xC4\xE3"));
  EXPECT_EQ(error->source()->place(error->span().begin), (Place{2, 4}));
  EXPECT_EQ(error->text().where, "f:2:4");
}

TEST(CheckedSource, TakesTextUpToTheLimit) {
  EXPECT_EQ(checked_source("f", std::string(kMaxSourceBytes, ' '))->text().size(), kMaxSourceBytes);
  expect_refused([] { checked_source("f", std::string(kMaxSourceBytes + 1, ' ')); }, "syntax/too-large", "4.0 MiB", "");
}

}  // namespace
}  // namespace weft::config
