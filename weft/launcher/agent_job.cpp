#include "weft/launcher/agent_job.h"

#include <nlohmann/json.hpp>

#include "weft/base/text.h"

namespace weft::launcher {
namespace {

using Json = nlohmann::json;

Json packed(const std::string& text) { return Json::binary({text.begin(), text.end()}); }

std::string text_of(const Json& value) {
  const auto& bytes = value.get_binary();
  return {bytes.begin(), bytes.end()};
}

Json packed(const std::vector<std::string>& texts) {
  Json out = Json::array();
  for (const auto& text : texts) out.push_back(packed(text));
  return out;
}

std::vector<std::string> texts_of(const Json& values) {
  std::vector<std::string> out;
  for (const auto& value : values) out.push_back(text_of(value));
  return out;
}

Json packed(const std::optional<int>& number) { return number ? Json(*number) : Json(); }

std::optional<int> optional_of(const Json& value) {
  return value.is_null() ? std::nullopt : std::optional(value.get<int>());
}

Json packed(const RankEnd& end) {
  Json out{{"rank", end.rank}, {"pid", end.pid}, {"seconds", end.seconds}};
  if (end.status) out["status"] = {end.status->code, end.status->signal};
  return out;
}

RankEnd end_of(const Json& value) {
  RankEnd end{.rank = value.at("rank"), .pid = value.at("pid"), .seconds = value.at("seconds")};
  if (value.contains("status")) end.status = {.code = value["status"].at(0), .signal = value["status"].at(1)};
  return end;
}

Json packed(const Failure& failure) {
  return {{"end", packed(failure.end)}, {"log", packed(failure.log)}, {"last_lines", packed(failure.last_lines)}};
}

Failure failure_of(const Json& value) {
  return {
      .end = end_of(value.at("end")), .log = text_of(value.at("log")), .last_lines = texts_of(value.at("last_lines"))};
}

Json packed(const LaunchSpec& spec) {
  return {{"argv", packed(spec.argv)},
          {"num_local", spec.num_local},
          {"num_hosts", spec.num_hosts},
          {"host_rank", spec.host_rank},
          {"ranks_per_host", spec.ranks_per_host},
          {"master_addr", packed(spec.master_addr)},
          {"master_port", packed(spec.master_port)},
          {"max_restarts", spec.max_restarts},
          {"resume", spec.resume},
          {"linger_ns", spec.linger.count()},
          {"grace_ns", spec.grace.count()},
          {"log_dir", packed(spec.log_dir)},
          {"threads", packed(spec.threads)},
          {"bind_cores", spec.bind_cores},
          {"run_id", packed(spec.run_id)},
          {"host_name", packed(spec.host_name)}};
}

LaunchSpec launch_of(const Json& value) {
  return {.argv = texts_of(value.at("argv")),
          .num_local = value.at("num_local"),
          .num_hosts = value.at("num_hosts"),
          .host_rank = value.at("host_rank"),
          .ranks_per_host = value.at("ranks_per_host"),
          .master_addr = text_of(value.at("master_addr")),
          .master_port = optional_of(value.at("master_port")),
          .max_restarts = value.at("max_restarts"),
          .resume = value.at("resume"),
          .linger = std::chrono::nanoseconds(value.at("linger_ns").get<int64_t>()),
          .grace = std::chrono::nanoseconds(value.at("grace_ns").get<int64_t>()),
          .log_dir = text_of(value.at("log_dir")),
          .threads = optional_of(value.at("threads")),
          .bind_cores = value.at("bind_cores"),
          .run_id = text_of(value.at("run_id")),
          .host_name = text_of(value.at("host_name")),
          .is_agent = true};
}

std::string cbor_of(const Json& value) {
  const auto bytes = Json::to_cbor(value);
  return {bytes.begin(), bytes.end()};
}

template <typename Take>
auto read(std::string_view bytes, const Take& take) {
  try {
    return take(Json::from_cbor(bytes));
  } catch (const Json::exception& error) {
    throw Error(ErrorKind::kEnvironment, {.title = "a message from another host cannot be read",
                                          .what = error.what(),
                                          .where = "",
                                          .fix = "run the same weft on all hosts"});
  }
}

}  // namespace

std::string bytes_of_job(const AgentJob& job) {
  Json variables = Json::array();
  for (const auto& [name, value] : job.env) variables.push_back({packed(name), packed(value)});
  return cbor_of(
      {{"launch", packed(job.launch)}, {"attempt", job.attempt}, {"cwd", packed(job.cwd)}, {"env", variables}});
}

AgentJob job_of_bytes(std::string_view bytes) {
  return read(bytes, [](const Json& value) {
    AgentJob job{
        .launch = launch_of(value.at("launch")), .attempt = value.at("attempt"), .cwd = text_of(value.at("cwd"))};
    for (const auto& pair : value.at("env")) job.env.emplace(text_of(pair.at(0)), text_of(pair.at(1)));
    return job;
  });
}

std::string bytes_of_report(const AgentReport& report) {
  Json out{{"ranks", Json::array()},
           {"interrupted_by", packed(report.interrupted_by)},
           {"heard_nothing", report.heard_nothing}};
  for (const auto& end : report.ranks) out["ranks"].push_back(packed(end));
  if (report.failure) out["failure"] = packed(*report.failure);
  return cbor_of(out);
}

AgentReport report_of_bytes(std::string_view bytes) {
  return read(bytes, [](const Json& value) {
    AgentReport report{.interrupted_by = optional_of(value.at("interrupted_by")),
                       .heard_nothing = value.at("heard_nothing")};
    for (const auto& end : value.at("ranks")) report.ranks.push_back(end_of(end));
    if (value.contains("failure")) report.failure = failure_of(value["failure"]);
    return report;
  });
}

std::string bytes_of_end(const RankEnd& end) { return cbor_of(packed(end)); }

RankEnd end_of_bytes(std::string_view bytes) { return read(bytes, end_of); }

std::string bytes_of_error(const Error& error) {
  const ErrorText& text = error.text();
  return cbor_of({{"kind", static_cast<int>(error.kind())},
                  {"texts", packed(std::vector{text.title, text.what, text.where, text.fix})}});
}

Error error_of_bytes(std::string_view bytes) {
  return read(bytes, [](const Json& value) {
    const auto texts = texts_of(value.at("texts"));
    return Error(static_cast<ErrorKind>(value.at("kind").get<int>()),
                 {.title = texts.at(0), .what = texts.at(1), .where = texts.at(2), .fix = texts.at(3)});
  });
}

}  // namespace weft::launcher
