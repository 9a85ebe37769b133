// torch's headers ask for the driver's version alone.
#pragma once

#define CUDA_VERSION 13000
