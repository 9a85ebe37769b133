// A sentence in the two languages the doctor speaks. A plain value.
#pragma once

#include <string>

namespace weft::config {

enum class Language { kEnglish, kChinese };

struct Words {
  std::string en;
  std::string zh;

  bool empty() const { return en.empty(); }
  const std::string& in(Language language) const { return language == Language::kChinese && !zh.empty() ? zh : en; }
};

}  // namespace weft::config
