// The public surface in one include. Rooms can be included on their own as well: weft/base/error.h, weft/data/batches.h, ...
#pragma once

#include "weft/base/build_info.h"
#include "weft/base/clock.h"
#include "weft/base/env.h"
#include "weft/base/error.h"
#include "weft/base/hash.h"
#include "weft/base/log.h"
#include "weft/base/units.h"
#include "weft/checkpoint/safetensors.h"
#include "weft/comm/group.h"
#include "weft/comm/peer_lost.h"
#include "weft/comm/world.h"
#include "weft/data/batches.h"
#include "weft/data/corpus.h"
#include "weft/monitor/progress.h"
#include "weft/monitor/run_report.h"
