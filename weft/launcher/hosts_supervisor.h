// Runs a program as the ranks of several hosts, through an ssh to each, and again after a failure as often as was asked
// for. Whatever happens to us, the ranks end: an agent whose connection breaks ends its own.
//
// Threads: call it from the only thread of the process. Signals to us go to all ranks meanwhile.
// Failure: Error(kInput) for what cannot be started; a rank that fails or a host that is lost is in the result.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "weft/launcher/hosts_spec.h"
#include "weft/launcher/run_result.h"

namespace weft::launcher {

RunResult supervise_hosts(const HostsSpec& spec);

// What is left to start where some hosts, by their place, do not answer: all of it, unless enough ranks remain.
HostsSpec without(const HostsSpec& spec, const std::vector<size_t>& away);

// Of our own environment what ranks on other hosts get without being asked: the settings of weft, OpenMP, the
// communication libraries, torch and Python. Not those that describe one host (PATH, CUDA_VISIBLE_DEVICES).
std::map<std::string, std::string> sent_environment();

}  // namespace weft::launcher
