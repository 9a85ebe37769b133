// settings.json of a run folder: every setting with where it came from, and the doctor's advice (docs/formats/run_folder.md).
// Free function, any thread; Error(kInput) as the reading of the config.
#pragma once

#include <string>

#include "weft/config/reading.h"

namespace weft::cli {

std::string settings_json(const config::Reading& reading);

}  // namespace weft::cli
