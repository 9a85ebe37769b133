// CUDA's header asks for this file, which checks nvcc's host compiler. Without nvcc there is nothing to check.
#pragma once
