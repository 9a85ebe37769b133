#include "weft/cli/front/check_actions.h"

#include <unistd.h>

#include <cstdio>
#include <nlohmann/json.hpp>

#include "weft/base/env.h"
#include "weft/base/error.h"
#include "weft/base/text.h"
#include "weft/cli/front/print_json.h"
#include "weft/doctor/rules/fix_report.h"
#include "weft/doctor/rules/preset.h"
#include "weft/doctor/rules/report.h"
#include "weft/doctor/rules/step_report.h"

namespace weft::cli {
namespace {

using Json = nlohmann::ordered_json;

void print(const std::string& text) { std::fputs(text.c_str(), stdout); }

bool is_chinese(const CheckOptions& o) { return o.language == config::Language::kChinese; }

// The file's, or that of an empty config: its defaults.
config::Reading reading_of(const CheckOptions& o) {
  auto document = o.files.empty() ? config::parse_document(std::make_shared<const config::Source>("(no file)", "{}"))
                                  : config::load_document(Env::posix(), o.files.front());
  return config::read_config(std::move(document), o.facts, o.version);
}

int64_t world_of(const CheckOptions& o) {
  const auto found = o.facts.find("world");
  return found == o.facts.end() ? 1 : found->second.value.integer;
}

}  // namespace

int fix_file(const CheckOptions& o) {
  const config::Document document = config::load_document(Env::posix(), o.files.front());
  const auto result = doctor::fix(document, {.facts = o.facts, .version = o.version, .machine = o.machine});
  publish_file(Env::posix(), o.fix_path, bytes_of(result.text));
  const doctor::Fixed fixed{result, o.files.front(), o.fix_path,
                            config::read_config(document, o.facts, o.version).version};
  print(o.json ? doctor::fix_json(fixed, o.language)
               : doctor::fix_text(fixed, o.language, detect_terminal(STDOUT_FILENO)));
  return fails(result.left, o.fail_on) ? 1 : 0;
}

int explain_setting(const CheckOptions& o) {
  const config::Reading reading = reading_of(o);
  print(o.json ? doctor::explain_json(reading, o.explain_key, o.language)
               : doctor::explain(reading, o.explain_key, o.language, detect_terminal(STDOUT_FILENO)));
  return 0;
}

int list_rules(const CheckOptions& o) {
  if (o.markdown) {
    print(doctor::rules_page());
    return 0;
  }
  Json rules = Json::array();
  for (const config::RuleInfo& info : doctor::all_rules()) {
    const auto what = is_chinese(o) ? info.what_zh : info.what, why = is_chinese(o) ? info.why_zh : info.why;
    rules.push_back(
        {{"rule", info.id}, {"severity", config::severity_name(info.severity)}, {"what", what}, {"why", why}});
    if (!o.json)
      print(cat(pad_columns(info.id, 34), " ", pad_columns(config::severity_name(info.severity), 8), " ", what, "\n"));
  }
  if (o.json) print_json({{"schema", 1}, {"rules", std::move(rules)}});
  return 0;
}

int print_preset(const CheckOptions& o) {
  const std::string text = doctor::preset_text(doctor::parse_preset(o.preset), world_of(o), o.machine, o.language);
  if (o.out_path.empty()) {
    print(text);
    return 0;
  }
  if (!o.force && Env::posix().stat(o.out_path)) {
    throw Error(ErrorKind::kInput, {.title = "the file is there already",
                                    .what = "",
                                    .where = o.out_path,
                                    .fix = "choose another name, or say --force to replace it"});
  }
  publish_file(Env::posix(), o.out_path, bytes_of(text));
  print(cat(is_chinese(o) ? "已写入 " : "wrote ", o.out_path, "\n"));
  return 0;
}

int print_symptom(const CheckOptions& o) {
  const config::Reading reading = reading_of(o);
  const doctor::Subject subject{reading, o.machine};
  const auto steps = doctor::advice_for(doctor::parse_symptom(o.symptom), o.files.empty() ? nullptr : &subject);
  const std::string file = o.files.empty() ? "" : o.files.front();
  print(o.json ? doctor::steps_json(o.symptom, file, steps, o.language)
               : doctor::steps_text(steps, o.language, detect_terminal(STDOUT_FILENO)));
  return 0;
}

}  // namespace weft::cli
