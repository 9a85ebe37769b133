// Slurm's way to write lists in a variable. Free functions, any thread; text that is no such list gives nothing.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace weft::comm {

// Digits, with a '-' before them at most; nothing else around them, no spaces either.
std::optional<int64_t> whole_number(std::string_view text);

// The first name of a host list: "node01" of "node[01-03,7],gpu5"; "" where there is none.
std::string first_host(std::string_view hosts);

// Tasks on host number `host`, from 0: 2, 2, 2 and 1 in "2(x3),1". Nothing past the end of the list.
std::optional<int> tasks_on_host(std::string_view tasks_per_host, int host);

}  // namespace weft::comm
