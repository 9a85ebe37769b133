// The name of this machine, for what people read: errors, dumps and file names; and what tells it from another of the same name, as
// images that are all called "localhost". Pure functions of the system, any thread; no failure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace weft {

// "localhost" where it has none.
std::string this_host_name();

// Of the running kernel, new at every boot; the name where there is no /proc.
std::string this_boot_id();

// "net:[4026531840]", of this process; "?" where it cannot be known.
std::string this_namespace(std::string_view kind);

// By rank: names that tell machines apart too, "localhost" and "localhost (2)", where `clocks` (see below) say that they are several.
std::vector<std::string> told_apart(const std::vector<std::string>& names, const std::vector<std::string>& clocks);

// Equal in two processes only where now_ns() is one clock for both. Not always where it is: then it is compared in vain.
std::string this_clock_name();

}  // namespace weft
