// What the live server answers to each request, sockets apart: paths, who may see them, and the events.
//
// The run folder is read when somebody asks, at most once a second however many ask: a run that nobody watches pays
// nothing. No part of a request ever becomes a path on the disk.
//
// Threads: answer() from any number at once. Failure: none; what goes wrong becomes a status code.
#pragma once

#include <atomic>
#include <mutex>
#include <string>

#include "weft/base/clock.h"
#include "weft/monitor/live/http_impl.h"
#include "weft/monitor/live/run_view.h"

namespace weft::detail {

struct SiteOptions {
  std::string token;               // empty: everybody who can connect may look
  bool is_loopback = true;         // then only requests for this very machine are answered (see has_right_host)
  std::string host = "127.0.0.1";  // bound to
  int max_event_clients = 16;
  double refresh_s = 1;     // between two looks at the folder
  double heartbeat_s = 10;  // a comment in the events, so that proxies and clients know that we are there
};

class LiveSite {
 public:
  LiveSite(Env& env, const std::string& folder, RunViewOptions view, SiteOptions options);

  HttpReply answer(const HttpRequest& request);

 private:
  HttpReply route(const HttpRequest& request);
  HttpReply page(const HttpRequest& request);
  HttpReply report();
  HttpReply events();
  void send_events(HttpStream& stream);
  std::string last_words(int64_t from_step);
  bool has_right_host(const HttpRequest& request) const;
  bool has_token(const HttpRequest& request) const;
  // The view, read anew when its last reading is older than refresh_s. Requires: mutex_ is held.
  const RunView& fresh_view();

  Env& env_;
  const SiteOptions options_;
  std::mutex mutex_;  // guards view_, read_at_ns_, has_looked_last_
  RunView view_;
  int64_t read_at_ns_ = 0;        // 0: never
  bool has_looked_last_ = false;  // the look of a server that stops was taken
  std::atomic<int> num_event_clients_ = 0;
};

// Takes the same time wherever the two first differ, so that answers do not tell how much of a guess was right.
bool equal_in_constant_time(std::string_view a, std::string_view b);

// 128 bits from the system, as 32 hex digits.
std::string random_token();

}  // namespace weft::detail
