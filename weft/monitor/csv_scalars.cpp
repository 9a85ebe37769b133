#include "weft/monitor/csv_scalars.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <string_view>

#include "weft/base/error.h"
#include "weft/base/log.h"
#include "weft/base/text.h"
#include "weft/monitor/line_reader.h"
#include "weft/monitor/terminal.h"
#include "weft/monitor/write_trouble.h"

namespace weft {
namespace {

std::string file_name(std::string tag) {
  std::ranges::replace(tag, '/', '_');
  std::ranges::replace(tag, ' ', '_');
  return tag + ".csv";
}

// As DeepSpeed has it: the last part of the tag.
std::string header_of(std::string_view tag) { return cat("step,", tag.substr(tag.rfind('/') + 1)); }

std::string row_of(int64_t x, double value) { return cat(x, ",", std::isnan(value) ? "nan" : cat(value), "\n"); }

// The samples of a row; nothing for a line that is none.
std::optional<int64_t> x_of(std::string_view line) {
  int64_t x = 0;
  const auto [at, code] = std::from_chars(line.data(), line.data() + line.size(), x);
  const bool is_row =
      code == std::errc() && at != line.data() + line.size() && *at == ',' && std::ranges::count(line, ',') == 1;
  return is_row ? std::optional(x) : std::nullopt;
}

[[noreturn]] void refuse_scalars_line(const std::string& path, const FileLine& line) {
  throw Error(ErrorKind::kInput,
              {.title = "the csv_monitor file holds something else",
               .what = cat("no row of samples and a value: ", printable(line.text.substr(0, 80), {})),
               .where = cat(path, ":", line.number),
               .fix = "give csv_monitor another output_path or job_name, or move the file away"});
}

struct Kept {
  uint64_t end = 0;         // where the rows to keep end
  bool has_header = false;  // the run to go on with has one
};

// What there is stays, but for a torn end and, with `next_x`, for the last run's rows at or past it.
Kept kept_of(Env& env, const std::string& path, const std::string& header, std::optional<int64_t> next_x) {
  Kept out;
  bool is_cut = false;  // rows of the run that is being read are to go
  LineReader lines(env, path);
  while (const auto line = lines.next()) {
    std::string_view text = line->text;
    if (text.ends_with('\r')) text.remove_suffix(1);  // DeepSpeed's own end of line
    const bool is_header = text == header;
    if (line->number == 1 && !is_header && (line->is_whole || !header.starts_with(text)))
      refuse_scalars_line(path, *line);
    if (!line->is_whole) break;
    const auto x = x_of(text);
    if (!is_header && !x) refuse_scalars_line(path, *line);
    if (is_header) is_cut = false;
    if (x && next_x && *x >= *next_x) is_cut = true;
    if (is_cut) continue;
    out.has_header = true;
    out.end = line->start + line->text.size() + 1;
  }
  return out;
}

}  // namespace

CsvScalars::CsvScalars(Env& env, const std::string& folder, bool resumed)
    : env_(env), folder_(folder), resumed_(resumed) {
  env_.make_folders(folder_);
}

CsvScalars::TagFile CsvScalars::open(const std::string& tag, int64_t first_x) {
  const std::string path = cat(folder_, "/", file_name(tag));
  const std::string header = header_of(tag);
  const auto info = env_.stat(path);
  const bool has_rows = info && info->kind == FileKind::kFile;
  const Kept kept = has_rows ? kept_of(env_, path, header, resumed_ ? std::optional(first_x) : std::nullopt) : Kept{};
  auto file = env_.open(path, info ? OpenMode::kReadWrite : OpenMode::kCreate);
  if (has_rows && info->bytes != kept.end) file->truncate(kept.end);
  TagFile out{.file = std::nullopt, .due = resumed_ && kept.has_header ? "" : header + "\n"};
  out.file.emplace(std::move(file), kept.end);
  return out;
}

CsvScalars::TagFile& CsvScalars::file_of(const std::string& tag, int64_t first_x) {
  const auto found = files_.find(tag);
  if (found != files_.end()) return found->second;
  TagFile file;
  try {
    file = open(tag, first_x);
  } catch (const IoError& error) {
    tell_write_trouble(cat(folder_, "/", file_name(tag)), error);
  } catch (const Error& error) {
    const ErrorText& text = error.text();
    log_warn(text.title, ": ", text.what, " (", text.where, "). Its rows are left out; training goes on. ", text.fix);
  }
  return files_.emplace(tag, std::move(file)).first->second;
}

void CsvScalars::add(const StepScalars& scalars) {
  for (const Scalar& scalar : scalars.values) {
    TagFile& tag = file_of(scalar.tag, scalars.x);
    if (!tag.file || !tag.file->put(tag.due + row_of(scalars.x, scalar.value))) {
      ++num_left_out_;
      continue;
    }
    tag.due.clear();
  }
}

}  // namespace weft
