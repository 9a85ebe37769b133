// Made by torch's own build for CUDA; the wheel for CPUs has none.
#pragma once

#define C10_CUDA_BUILD_SHARED_LIBS
