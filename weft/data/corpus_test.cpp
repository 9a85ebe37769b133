#include "weft/data/corpus.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cmath>
#include <filesystem>
#include <fstream>

#include "tests/support/temp_dir.h"
#include "weft/base/error.h"

namespace weft::data {
namespace {

void write_text(const std::string& path, const std::string& text) {
  std::filesystem::create_directories(std::filesystem::path(path).parent_path());
  std::ofstream(path, std::ios::binary) << text;
}

std::string text_of(const Corpus& corpus) { return {corpus.tokens().begin(), corpus.tokens().end()}; }

TEST(Corpus, UnigramEntropyOfKnownFrequencies) {
  EXPECT_DOUBLE_EQ(Corpus("one", {'a', 'a', 'a'}, 1).unigram_entropy(), 0.0);
  EXPECT_DOUBLE_EQ(Corpus("two", {'a', 'b'}, 1).unigram_entropy(), std::log(2.0));
  EXPECT_NEAR(Corpus("four", {'a', 'b', 'c', 'c'}, 1).unigram_entropy(), 1.5 * std::log(2.0), 1e-15);
}

TEST(ReadCorpus, OneFileIsTakenAsItStands) {
  const test::TempDir dir;
  write_text(dir / "a.txt", std::string("x\0y", 3));
  EXPECT_EQ(text_of(read_corpus(Env::posix(), dir / "a.txt")), std::string("x\0y", 3));
}

TEST(ReadCorpus, AFolderIsItsTextFilesInPathOrder) {
  const test::TempDir dir;
  write_text(dir / "b.txt", "second");
  write_text(dir / "a/z.txt", "first");
  write_text(dir / ".hidden", "no");
  write_text(dir / "c.bin", std::string("\0\1", 2));
  const Corpus corpus = read_corpus(Env::posix(), dir.path().string());
  EXPECT_EQ(text_of(corpus), "firstsecond");
  EXPECT_EQ(corpus.num_files(), 2);
}

TEST(ReadCorpus, SaysWhatIsWrongWithThePath) {
  const test::TempDir dir;
  write_text(dir / "empty.txt", "");
  std::filesystem::create_directories(dir / "folder");
  const std::pair<std::string, std::string> cases[] = {{"/missing", "the data to train on does not exist"},
                                                       {"/empty.txt", "the data to train on is empty"},
                                                       {"/folder", "the data to train on is empty"}};
  for (const auto& [name, title] : cases) {
    try {
      read_corpus(Env::posix(), dir.path().string() + name);
      FAIL() << name;
    } catch (const Error& error) {
      EXPECT_EQ(error.text().title, title);
      EXPECT_EQ(error.text().where, dir.path().string() + name);
      EXPECT_EQ(error.exit_code(), 2);
    }
  }
}

// A named pipe would be waited on for ever.
TEST(ReadCorpus, RefusesWhatIsNeitherFileNorFolder) {
  const test::TempDir dir;
  ASSERT_EQ(::mkfifo((dir / "pipe").c_str(), 0600), 0);
  try {
    read_corpus(Env::posix(), dir / "pipe");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.text().title, "the data to train on is neither a file nor a folder");
  }
}

TEST(ReadCorpus, RefusesMoreThanTheLimit) {
  const test::TempDir dir;
  write_text(dir / "a.txt", std::string(100, 'a'));
  EXPECT_THROW(read_corpus(Env::posix(), dir / "a.txt", 99), Error);
  EXPECT_THROW(read_corpus(Env::posix(), dir.path().string(), 99), Error);
  EXPECT_EQ(read_corpus(Env::posix(), dir / "a.txt", 100).size(), 100);
}

TEST(ReadPythonCorpus, TakesSourcesAndLeavesTestsOut) {
  const test::TempDir dir;
  write_text(dir / "argparse.py", "import sys\n");
  write_text(dir / "json/decoder.py", "class Decoder: pass\n");
  write_text(dir / "test/test_json.py", "no");
  write_text(dir / "site-packages/x.py", "no");
  write_text(dir / "LICENSE.txt", "no");
  EXPECT_EQ(text_of(read_python_corpus(Env::posix(), dir.path().string())), "import sys\nclass Decoder: pass\n");
}

TEST(ReadPythonCorpus, FindsTheLibraryOfThisMachine) {
  const Corpus corpus = read_python_corpus(Env::posix());
  EXPECT_GT(corpus.size(), 1 << 20);
  EXPECT_NE(text_of(corpus).find("class ArgumentParser"), std::string::npos);
}

}  // namespace
}  // namespace weft::data
