// Ctrl-C, SIGTERM and SIGUSR1 (Slurm's word before it takes the machine away), turned into a question the training loop asks between steps: the run ends after the step in hand, with its
// report written and its state saved. A second signal ends the process at once.
#pragma once

#include <csignal>

namespace weft::cli {

class StopSignal {
 public:
  StopSignal();   // takes them over
  ~StopSignal();  // gives them back
  StopSignal(const StopSignal&) = delete;
  StopSignal& operator=(const StopSignal&) = delete;

  bool asked() const;
  // Ends the process by the signal that asked, so that shells and launchers see why; returns when none did.
  void leave_as_asked();

 private:
  struct sigaction old_int_{}, old_term_{}, old_user_{};
};

}  // namespace weft::cli
