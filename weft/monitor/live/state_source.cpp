#include "weft/monitor/live/state_source.h"

#include <charconv>

#include "weft/base/error.h"
#include "weft/base/text.h"
#include "weft/monitor/live/http_impl.h"
#include "weft/monitor/live/run_view.h"
#include "weft/monitor/live/state_json.h"
#include "weft/monitor/terminal.h"

namespace weft {
namespace {

class FolderSource final : public StateSource {
 public:
  FolderSource(Env& env, const std::string& folder) : view_(env, folder, {.host = HostFacts::of_this_machine()}) {}
  LiveState read() override {
    while (view_.refresh()) {
    }
    return view_.state();
  }
  std::string name() const override { return view_.folder(); }

 private:
  RunView view_;
};

class ServerSource final : public StateSource {
 public:
  explicit ServerSource(ServerAddress address) : address_(std::move(address)) {}
  LiveState read() override {
    const auto answer = detail::http_get(address_.host, address_.port, "/api/state", address_.token).value();
    if (answer.status == 401)
      throw Error(ErrorKind::kInput, {.title = "the server wants a token",
                                      .what = "",
                                      .where = name(),
                                      .fix = "give --token, or the whole address that weft watch printed there"});
    if (answer.status != 200)
      throw Error(ErrorKind::kEnvironment,
                  {.title = "the server does not answer with a state",
                   .what = cat("status ", answer.status, ": ", printable(answer.body.substr(0, 120), {})),
                   .where = name(),
                   .fix = ""});
    return parse_state(answer.body).value();
  }
  std::string name() const override { return cat(address_.host, ":", address_.port); }

 private:
  const ServerAddress address_;
};

}  // namespace

std::optional<ServerAddress> parse_server_address(const std::string& text) {
  std::string_view rest = text;
  constexpr std::string_view kScheme = "http://", kToken = "?token=";
  if (rest.starts_with(kScheme)) rest.remove_prefix(kScheme.size());
  ServerAddress out;
  if (const size_t at = rest.find(kToken); at != std::string_view::npos) {
    out.token = rest.substr(at + kToken.size());
    rest = rest.substr(0, at);
  }
  if (rest.ends_with('/')) rest.remove_suffix(1);
  const size_t colon = rest.rfind(':');
  if (colon == std::string_view::npos || colon == 0 || rest.find('/') != std::string_view::npos) return std::nullopt;
  const std::string_view digits = rest.substr(colon + 1);
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), out.port);
  if (error != std::errc() || end != digits.data() + digits.size() || out.port < 1 || out.port > 65535)
    return std::nullopt;
  out.host = rest.substr(0, colon);
  if (out.host.starts_with('[') && out.host.ends_with(']')) out.host = out.host.substr(1, out.host.size() - 2);
  return out;
}

std::unique_ptr<StateSource> open_state_source(Env& env, const std::string& text, const std::string& token) {
  if (!env.stat(text)) {
    if (auto address = parse_server_address(text)) {
      if (!token.empty()) address->token = token;
      return std::make_unique<ServerSource>(*address);
    }
  }
  return std::make_unique<FolderSource>(env, find_run_folder(env, text));
}

}  // namespace weft
