"""The parts of tools/test: what ctest knows, running it, reading GoogleTest's and pytest's progress, and saying what came out."""
