#include "weft/monitor/live/live_server.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "weft/base/error.h"
#include "weft/base/text.h"
#include "weft/monitor/json_text.h"
#include "weft/monitor/live/live_site_impl.h"

namespace weft {
namespace {

using detail::HttpServer;

LiveServerOptions settled(LiveServerOptions options, bool is_loopback) {
  if (options.token.empty() && !is_loopback) options.token = detail::random_token();
  return options;
}

detail::SiteOptions site_options(const LiveServerOptions& options, bool is_loopback) {
  return {.token = options.token,
          .is_loopback = is_loopback,
          .host = options.host,
          .max_event_clients = options.max_event_clients};
}

std::unique_ptr<HttpServer> listen(const detail::ListenAddress& address, const LiveServerOptions& options,
                                   const HttpServer::Handle& handle) {
  for (int tried = 0;; ++tried) {
    const int port = options.port == 0 ? 0 : options.port + tried;
    try {
      return std::make_unique<HttpServer>(address, port, handle, detail::HttpLimits{});
    } catch (const IoError& error) {
      if (error.code() != EADDRINUSE || tried + 1 >= options.num_ports || port >= 65535) throw;
    }
  }
}

// What a browser on this machine can open: the address of all interfaces is none.
std::string name_in_url(const std::string& host) {
  if (host == "0.0.0.0" || host == "::") {
    char name[256] = {};
    ::gethostname(name, sizeof name - 1);
    return name;
  }
  return host.find(':') == std::string::npos ? host : cat("[", host, "]");
}

}  // namespace

class LiveServer::Impl {
 public:
  Impl(Env& env, const std::string& folder, LiveServerOptions options)
      : env_(env),
        address_(options.host),
        options_(settled(std::move(options), address_.is_loopback())),
        site_(env, folder, {.host = HostFacts::of_this_machine()}, site_options(options_, address_.is_loopback())),
        server_(
            listen(address_, options_, [this](const detail::HttpRequest& request) { return site_.answer(request); })) {
    if (options_.announce) announce(folder + "/dashboard.json");
  }
  ~Impl() {
    server_.reset();
    if (announced_.empty()) return;
    try {
      env_.remove_file(announced_);
    } catch (const Error&) {  // NOLINT(bugprone-empty-catch): whoever finds it meets a server that does not answer
    }
  }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  std::string address() const { return cat("http://", name_in_url(options_.host), ":", server_->port(), "/"); }
  std::string url() const { return cat(address(), options_.token.empty() ? "" : cat("?token=", options_.token)); }
  int port() const { return server_->port(); }
  const std::string& token() const { return options_.token; }

 private:
  void announce(const std::string& path) {
    std::string text = "{\"schema\":1,\"url\":";
    append_json_string(text, url());
    if (!options_.token.empty()) {
      write_file(env_, path, {});  // closed to others before the token is in it
      ::chmod(path.c_str(), S_IRUSR | S_IWUSR);
    }
    write_file(env_, path, bytes_of(cat(text, ",\"pid\":", ::getpid(), "}\n")));
    announced_ = path;
  }

  Env& env_;
  const detail::ListenAddress address_;
  const LiveServerOptions options_;
  detail::LiveSite site_;
  std::unique_ptr<HttpServer> server_;  // ends before the site it asks
  std::string announced_;
};

LiveServer::LiveServer(Env& env, const std::string& folder, LiveServerOptions options)
    : impl_(std::make_unique<Impl>(env, folder, std::move(options))) {}
LiveServer::~LiveServer() = default;
std::string LiveServer::url() const { return impl_->url(); }
std::string LiveServer::address() const { return impl_->address(); }
int LiveServer::port() const { return impl_->port(); }
const std::string& LiveServer::token() const { return impl_->token(); }

}  // namespace weft
