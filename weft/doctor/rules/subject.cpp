#include "weft/doctor/rules/subject.h"

#include <utility>
#include <vector>

#include "weft/base/error.h"
#include "weft/base/text.h"

namespace weft::doctor {
namespace {

constexpr std::pair<Link, std::string_view> kLinks[] = {
    {Link::kNvlink, "nvlink"},       {Link::kPcie4, "pcie4"},       {Link::kPcie3, "pcie3"},
    {Link::kEthernet100, "100gbit"}, {Link::kEthernet25, "25gbit"}, {Link::kEthernet10, "10gbit"},
    {Link::kEthernet1, "1gbit"},
};

}  // namespace

std::string_view link_name(Link link) {
  for (const auto& [known, name] : kLinks) {
    if (known == link) return name;
  }
  return "";
}

Link parse_link(std::string_view name) {
  std::vector<std::string> names;
  for (const auto& [link, known] : kLinks) {
    if (known == name) return link;
    names.emplace_back(known);
  }
  throw Error(ErrorKind::kInput, {.title = cat("there is no link '", name, "'"),
                                  .what = "",
                                  .where = "--link",
                                  .fix = cat("one of ", join(names, ", "))});
}

bool is_low_bandwidth(Link link) { return link != Link::kNvlink; }

}  // namespace weft::doctor
