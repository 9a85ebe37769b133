"""The parts of tools/ci: steps (what runs), budget (what it may cost), run (running it), ending (what is said at the end)."""
