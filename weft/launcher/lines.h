// What a rank prints, cut into lines that can be shown: bytes in, lines out.
//
//   LineCutter cutter;
//   cutter.feed("loss 3.1\nloss", [](std::string_view line) { ... });   // "loss 3.1"
//   cutter.finish(...);                                                // "loss"
//
// A carriage return ends a line too, or a progress bar that redraws itself would stay unseen until its end. A line of
// more than kMaxPieceBytes comes in pieces, so that memory stays bounded whatever a rank prints.
//
// Threads: values with one owner. Nothing here fails.
#pragma once

#include <deque>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace weft::launcher {

using OnLine = std::function<void(std::string_view)>;  // without its line end

class LineCutter {
 public:
  static constexpr size_t kMaxPieceBytes = 64 << 10;

  void feed(std::string_view bytes, const OnLine& on_line);
  // The last line, when it has no line end.
  void finish(const OnLine& on_line);

 private:
  void add(std::string_view bytes, const OnLine& on_line);
  void end_line(char ending, const OnLine& on_line);

  std::string begun_;
  bool after_return_ = false;  // a '\n' now belongs to the '\r' before it
};

// The line, safe to show: control characters and bytes that are no UTF-8 become \xNN. Tabs stay; colours (ESC [ ... m)
// stay where `colour`, and are dropped elsewhere.
std::string safe_line(std::string_view line, bool colour);

// The last lines that were added, each cut to kMaxBytes.
class LastLines {
 public:
  static constexpr size_t kMaxLines = 50, kMaxBytes = 2 << 10;

  void add(std::string_view line);
  std::vector<std::string> lines() const { return {lines_.begin(), lines_.end()}; }

 private:
  std::deque<std::string> lines_;
};

}  // namespace weft::launcher
