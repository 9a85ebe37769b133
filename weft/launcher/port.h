// TCP ports for the ranks to meet at. A port is found by binding to it and letting go: it can be taken by another
// program in between, which torch then reports; a restart takes a new one.
//
// Free functions, any thread.
#pragma once

namespace weft::launcher {

// A port nobody uses now. Failure: IoError.
int free_port();

// Throws Error(kInput) when rank 0 could not listen there.
void require_free_port(int port);

}  // namespace weft::launcher
