#include "weft/data/corpus.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <span>

#include "weft/base/clock.h"
#include "weft/base/error.h"
#include "weft/base/log.h"
#include "weft/base/process.h"
#include "weft/base/text.h"
#include "weft/base/units.h"

namespace weft::data {
namespace {

using PathFilter = std::function<bool(const std::string& name, bool is_folder)>;

Error unusable(std::string title, std::string what, const std::string& path) {
  return Error(ErrorKind::kInput, {.title = std::move(title),
                                   .what = std::move(what),
                                   .where = path,
                                   .fix = "give --data a text file, or a folder of text files"});
}

struct TextFile {
  std::string path;
  uint64_t bytes = 0;
};

// Links are passed over: they could lead in a circle, or count a text twice.
void collect(Env& env, const std::string& folder, const PathFilter& keep, std::vector<TextFile>& out) {
  for (const auto& name : env.list(folder)) {
    const std::string path = cat(folder, "/", name);
    const auto info = env.stat(path);
    if (!info || info->is_link || !keep(name, info->kind == FileKind::kFolder)) continue;
    if (info->kind == FileKind::kFolder) collect(env, path, keep, out);
    if (info->kind == FileKind::kFile) out.push_back({path, info->bytes});
  }
}

// Before anything is read: a slip of the path must not fill the memory first.
void check_size(const std::vector<TextFile>& files, const std::string& path, uint64_t limit_bytes) {
  uint64_t total = 0;
  for (const auto& file : files) total += file.bytes;
  if (total > limit_bytes) {
    throw Error(ErrorKind::kInput, {.title = "the data to train on is too large",
                                    .what = cat(format_bytes(total), "; text is held in memory, and ",
                                                format_bytes(limit_bytes), " is the most"),
                                    .where = path,
                                    .fix = "give --data a part of it"});
  }
  constexpr uint64_t kWorthALine = 256 << 20;  // about what a disk reads in a second
  if (total > kWorthALine) log_info("reading ", format_bytes(total), " of text from ", path);
}

// Straight into place: a corpus of gigabytes must not stand in memory twice, not even for a moment.
void append_file(Env& env, const TextFile& text, std::vector<uint8_t>& out) {
  const auto file = env.open(text.path, OpenMode::kRead);
  const size_t begin = out.size();
  out.resize(begin + text.bytes);
  out.resize(begin + file->read_at(0, std::as_writable_bytes(std::span(out).subspan(begin))));
}

bool looks_binary(std::span<const uint8_t> text) {
  constexpr size_t kProbeBytes = 8 << 10;
  const auto probe = text.first(std::min(text.size(), kProbeBytes));
  return std::ranges::find(probe, 0) != probe.end();
}

Corpus join_files(Env& env, std::string name, const std::vector<TextFile>& files, uint64_t limit_bytes) {
  check_size(files, name, limit_bytes);
  std::vector<uint8_t> bytes;
  int64_t num_files = 0;
  for (const auto& file : files) {
    const size_t before = bytes.size();
    append_file(env, file, bytes);
    if (looks_binary(std::span(bytes).subspan(before))) {
      bytes.resize(before);
    } else {
      ++num_files;
    }
  }
  return {std::move(name), std::move(bytes), num_files};
}

std::optional<std::string> stdlib_of_python_on_path() {
  const ProcessSpec ask{.argv = {"python3", "-c", "import sysconfig; print(sysconfig.get_paths()['stdlib'])"}};
  try {
    constexpr size_t kLimitBytes = 4096;
    auto answer = run_and_capture(ask, Deadline::after(10), kLimitBytes);
    if (!answer.status.ok()) return std::nullopt;
    answer.out.erase(answer.out.find_last_not_of(" \r\n") + 1);
    return answer.out;
  } catch (const Error&) {
    return std::nullopt;  // no python3 here: the usual folders may still have one
  }
}

std::optional<std::string> stdlib_in_usual_folders(Env& env) {
  for (const std::string root : {"/usr/lib", "/usr/local/lib"}) {
    if (!env.stat(root)) continue;
    auto names = env.list(root);
    std::ranges::reverse(names);  // the newest version first
    for (const auto& name : names) {
      std::string folder = cat(root, "/", name);
      if (name.starts_with("python3.") && env.stat(folder + "/argparse.py")) return folder;
    }
  }
  return std::nullopt;
}

bool is_library_source(const std::string& name, bool is_folder) {
  static constexpr std::array kSkipped = {"test",    "tests",   "site-packages", "dist-packages", "__pycache__",
                                          "idlelib", "lib2to3", "turtledemo",    "pydoc_data"};
  if (is_folder) return std::ranges::find(kSkipped, name) == kSkipped.end();
  return name.ends_with(".py");
}

}  // namespace

Corpus::Corpus(std::string name, std::vector<uint8_t> bytes, int64_t num_files)
    : name_(std::move(name)), bytes_(std::move(bytes)), num_files_(num_files) {}

double Corpus::unigram_entropy() const {
  std::array<int64_t, kVocab> counts{};
  for (const uint8_t byte : bytes_) ++counts[byte];
  double entropy = 0;
  for (const int64_t count : counts) {
    if (count == 0) continue;
    const double p = static_cast<double>(count) / static_cast<double>(bytes_.size());
    entropy -= p * std::log(p);
  }
  return entropy;
}

Corpus read_corpus(Env& env, const std::string& path, uint64_t limit_bytes) {
  const auto info = env.stat(path);
  if (!info) throw unusable("the data to train on does not exist", "no such file or folder", path);
  if (info->kind == FileKind::kOther) throw unusable("the data to train on is neither a file nor a folder", "", path);
  if (info->kind == FileKind::kFile) {
    if (info->bytes == 0) throw unusable("the data to train on is empty", "the file has no bytes", path);
    const TextFile text{path, info->bytes};
    check_size({text}, path, limit_bytes);
    std::vector<uint8_t> bytes;
    append_file(env, text, bytes);
    return {path, std::move(bytes), 1};
  }
  std::vector<TextFile> files;
  collect(env, path, [](const std::string& name, bool) { return !name.starts_with('.'); }, files);
  auto corpus = join_files(env, path, files, limit_bytes);
  if (corpus.size() == 0) {
    throw unusable("the data to train on is empty", cat("the folder holds ", files.size(), " files and no text"), path);
  }
  return corpus;
}

Corpus read_python_corpus(Env& env, const std::optional<std::string>& folder) {
  auto root = folder ? folder : stdlib_of_python_on_path();
  if (!root || !env.stat(*root)) root = stdlib_in_usual_folders(env);
  if (!root) {
    throw Error(ErrorKind::kInput,
                {.title = "the default corpus, Python's own library, is not on this machine",
                 .what = "no python3 on PATH and no python3.x under /usr/lib or /usr/local/lib",
                 .where = "",
                 .fix = "apt-get install python3, or train on your own text: --data FILE_OR_FOLDER"});
  }
  std::vector<TextFile> files;
  collect(env, *root, is_library_source, files);
  constexpr uint64_t kLimitBytes = 256 << 20;
  auto corpus = join_files(env, *root, files, kLimitBytes);
  if (corpus.size() == 0) throw unusable("Python's library holds no source files", "no *.py was found", *root);
  return corpus;
}

}  // namespace weft::data
