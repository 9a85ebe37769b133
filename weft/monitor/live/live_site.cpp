#include <sys/random.h>

#include <charconv>
#include <utility>

#include "weft/base/error.h"
#include "weft/base/text.h"
#include "weft/monitor/live/live_site_impl.h"
#include "weft/monitor/live/page_assets_impl.h"
#include "weft/monitor/live/prometheus.h"
#include "weft/monitor/live/state_json.h"

namespace weft::detail {
namespace {

constexpr const char* kJson = "application/json; charset=utf-8";
constexpr const char* kHtml = "text/html; charset=utf-8";

HttpReply plain(int status, std::string text) { return {.status = status, .body = std::move(text) + "\n"}; }

// "127.0.0.1:6006" -> "127.0.0.1", "[::1]:6006" -> "[::1]".
std::string_view without_port(std::string_view host) {
  const size_t colon = host.rfind(':');
  return colon == std::string_view::npos || host.ends_with(']') ? host : host.substr(0, colon);
}

// Cookies do not know ports, so the name does: two runs watched on one machine must not take each other's token away.
std::string cookie_name(const HttpRequest& request) {
  const std::string host = request.header("Host").value_or("");
  const std::string_view port = std::string_view(host).substr(without_port(host).size());
  const bool is_number = port.size() > 1 && port.find_first_not_of("0123456789", 1) == std::string_view::npos;
  return cat("weft_token_", is_number ? port.substr(1) : "80", "=");
}

std::string cookie_token(const HttpRequest& request) {
  const std::string name = cookie_name(request), cookies = request.header("Cookie").value_or("");
  for (size_t at = 0; at < cookies.size();) {
    size_t end = cookies.find(';', at);
    if (end == std::string::npos) end = cookies.size();
    const std::string_view one = std::string_view(cookies).substr(at, end - at);
    if (one.starts_with(name)) return std::string(one.substr(name.size()));
    at = end + 1;
    while (at < cookies.size() && cookies[at] == ' ') ++at;
  }
  return "";
}

std::string replaced(std::string_view text, std::string_view word, std::string_view by) {
  std::string out(text);
  for (size_t at = 0; (at = out.find(word, at)) != std::string::npos; at += by.size()) out.replace(at, word.size(), by);
  return out;
}

void add_headers(HttpReply& reply) {
  for (const auto& [name, value] : {std::pair{"Cache-Control", "no-store"},
                                    {"X-Content-Type-Options", "nosniff"},
                                    {"X-Frame-Options", "DENY"},
                                    {"Referrer-Policy", "no-referrer"},
                                    {"Cross-Origin-Resource-Policy", "same-origin"}})
    reply.headers.emplace_back(name, value);
}

}  // namespace

bool equal_in_constant_time(std::string_view a, std::string_view b) {
  unsigned differs = a.size() == b.size() ? 0 : 1;
  for (size_t i = 0; i < a.size(); ++i)
    differs |= static_cast<unsigned char>(a[i]) ^ static_cast<unsigned char>(b.empty() ? 0 : b[i % b.size()]);
  return differs == 0;
}

std::string random_token() {
  unsigned char bytes[16];
  for (size_t got = 0; got < sizeof bytes;) {
    const ssize_t now = ::getrandom(bytes + got, sizeof bytes - got, 0);
    if (now < 0 && errno != EINTR) throw IoError("draw a token", "getrandom", errno);
    got += now > 0 ? static_cast<size_t>(now) : 0;
  }
  std::string out;
  for (const unsigned char byte : bytes) {
    out += "0123456789abcdef"[byte >> 4];
    out += "0123456789abcdef"[byte & 15];
  }
  return out;
}

LiveSite::LiveSite(Env& env, const std::string& folder, RunViewOptions view, SiteOptions options)
    : env_(env), options_(std::move(options)), view_(env, folder, std::move(view)) {}

const RunView& LiveSite::fresh_view() {
  if (read_at_ns_ == 0 || static_cast<double>(now_ns() - read_at_ns_) * 1e-9 >= options_.refresh_s * 0.9) {
    while (view_.refresh()) {
    }
    read_at_ns_ = now_ns();
  }
  return view_;
}

// A page on the web can have its own name lead to 127.0.0.1 and then ask us as itself (DNS rebinding). Its requests
// carry that name; ours carry this machine's. A server that the network reaches has a token instead.
bool LiveSite::has_right_host(const HttpRequest& request) const {
  if (!options_.is_loopback) return true;
  const std::string host = request.header("Host").value_or("");
  const std::string_view name = without_port(host);
  return name == "localhost" || name == "127.0.0.1" || name == "[::1]" || name == options_.host;
}

bool LiveSite::has_token(const HttpRequest& request) const {
  if (options_.token.empty()) return true;
  constexpr std::string_view kBearer = "Bearer ";
  const std::string authorization = request.header("Authorization").value_or("");
  const bool bearer = authorization.starts_with(kBearer) &&
                      equal_in_constant_time(options_.token, std::string_view(authorization).substr(kBearer.size()));
  const bool cookie = equal_in_constant_time(options_.token, cookie_token(request));
  const bool query = equal_in_constant_time(options_.token, request.parameter("token").value_or(""));
  return bearer || cookie || query;
}

HttpReply LiveSite::answer(const HttpRequest& request) {
  HttpReply reply;
  if (request.method != "GET" && request.method != "HEAD") {
    reply = plain(405, "only GET and HEAD");
    reply.headers.emplace_back("Allow", "GET, HEAD");
  } else if (!has_right_host(request)) {
    reply = plain(403, "this page is served for this machine only: open it as 127.0.0.1 or localhost");
  } else if (!has_token(request)) {
    reply = plain(401, "a token is needed: open the whole address that weft printed, with ?token=...");
    reply.headers.emplace_back("WWW-Authenticate", "Bearer");
  } else {
    reply = route(request);
  }
  add_headers(reply);
  return reply;
}

HttpReply LiveSite::route(const HttpRequest& request) {
  if (request.path == "/") return page(request);
  if (request.path == "/report") return report();
  if (request.path == "/events")
    return request.method == "HEAD" ? HttpReply{.type = "text/event-stream", .body = ""} : events();
  if (request.path == "/favicon.ico") return {.status = 204, .body = ""};
  const std::lock_guard lock(mutex_);
  if (request.path == "/api/state") return {.type = kJson, .body = state_json(fresh_view().state())};
  if (request.path == "/metrics")
    return {.type = "text/plain; version=0.0.4; charset=utf-8", .body = prometheus_text(fresh_view().state())};
  if (request.path != "/api/series")
    return plain(404, "there is /, /api/state, /api/series, /events, /metrics and /report");
  const std::string from = request.parameter("from").value_or("0");
  int64_t step = 0;
  const auto [end, error] = std::from_chars(from.data(), from.data() + from.size(), step);
  if (error != std::errc() || end != from.data() + from.size()) return plain(400, "from is the number of a step");
  const RunView& view = fresh_view();
  return {.type = kJson, .body = series_json(view.series(), step, view.state().epoch)};
}

// Scripts and styles are inside the page; a fresh nonce lets these in and nothing else that might get into it.
HttpReply LiveSite::page(const HttpRequest& request) {
  const std::string nonce = random_token();
  HttpReply reply{.type = kHtml, .body = replaced(kLivePage, "__NONCE__", nonce)};
  reply.headers.emplace_back(
      "Content-Security-Policy",
      cat("default-src 'none'; connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; "
          "frame-ancestors 'none'; script-src 'nonce-",
          nonce, "'; style-src 'nonce-", nonce, "'"));
  // From here on the cookie stands for the token, and the page takes it out of the address.
  if (request.parameter("token") && !options_.token.empty())
    reply.headers.emplace_back("Set-Cookie",
                               cat(cookie_name(request), options_.token, "; Path=/; HttpOnly; SameSite=Strict"));
  return reply;
}

HttpReply LiveSite::report() {
  constexpr uint64_t kMaxBytes = 64 << 20;
  const std::string path = view_.folder() + "/report.html";  // never changes: no lock
  try {
    if (!env_.stat(path)) return plain(404, "there is no report yet: it is written when the run ends");
    HttpReply reply{.type = kHtml, .body = read_file(env_, path, kMaxBytes)};
    reply.headers.emplace_back("Content-Security-Policy",
                               "sandbox allow-scripts; default-src 'none'; script-src 'unsafe-inline'; style-src "
                               "'unsafe-inline'; img-src data:");
    return reply;
  } catch (const Error& error) {
    return plain(500, error.text().title);
  }
}

HttpReply LiveSite::events() {
  if (num_event_clients_.fetch_add(1) >= options_.max_event_clients) {
    --num_event_clients_;
    HttpReply reply = plain(503, "too many pages are open on this run");
    reply.headers.emplace_back("Retry-After", "5");
    return reply;
  }
  // The count goes down when the last copy of the function does, whatever became of the connection.
  const std::shared_ptr<LiveSite> place(this, [](LiveSite* site) { --site->num_event_clients_; });
  return {
      .type = "text/event-stream", .body = "", .stream = [place](HttpStream& stream) { place->send_events(stream); }};
}

// Of a server that stops: a run writes how it ended just before. One look for all pages, which reads a few megabytes at
// most: the run waits for it. The end of the curves comes along, as nobody answers who asks for it; last, since it may be long
// and there is little time.
std::string LiveSite::last_words(int64_t from_step) {
  const std::lock_guard lock(mutex_);
  if (!std::exchange(has_looked_last_, true)) view_.refresh();
  const LiveState& state = view_.state();
  return cat("event: state\ndata: ", state_json(state),
             "\n\nevent: series\ndata: ", series_json(view_.series(), from_step, state.epoch), "\n\n");
}

void LiveSite::send_events(HttpStream& stream) {
  if (!stream.send("retry: 2000\n\n")) return;
  int64_t seen = -1;
  // Of the last state, and of the one before: the page may not have the curves of the last one yet.
  int64_t step = 0, step_before = 0;
  Stopwatch silence;
  do {
    std::string news;
    {
      const std::lock_guard lock(mutex_);
      const LiveState& state = fresh_view().state();
      if (state.version != seen) news = cat("event: state\ndata: ", state_json(state), "\n\n");
      if (!news.empty()) step_before = std::exchange(step, state.step.value_or(0));
      seen = state.version;
    }
    if (news.empty() && silence.elapsed_s() >= options_.heartbeat_s) news = ": still here\n\n";
    if (news.empty()) continue;
    if (!stream.send(news)) return;
    silence.restart();
  } while (stream.wait(options_.refresh_s));
  if (stream.is_last()) stream.send(last_words(step_before));
}

}  // namespace weft::detail
