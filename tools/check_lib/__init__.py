"""The parts of tools/check: changes (what changed), binaries (which tests a room has), plan (what to run of them), run."""
