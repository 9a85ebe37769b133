// The part of NCCL that c10d's headers name, as cuda_runtime_api.h beside it.
#pragma once

#include <cuda_runtime_api.h>

#define NCCL_VERSION(major, minor, patch) ((major) * 10000 + (minor) * 100 + (patch))
#define NCCL_VERSION_CODE NCCL_VERSION(2, 29, 7)
#define NCCL_UNIQUE_ID_BYTES 128
#define NCCL_SPLIT_NOCOLOR -1
#define NCCL_CONFIG_INITIALIZER ncclConfig_t()

enum ncclResult_t { ncclSuccess, ncclInProgress };
enum ncclRedOp_t { ncclSum, ncclProd, ncclMax, ncclMin, ncclAvg };
enum ncclDataType_t {
  ncclInt8,
  ncclUint8,
  ncclInt32,
  ncclInt64,
  ncclHalf,
  ncclFloat,
  ncclDouble,
  ncclBfloat16,
  ncclFloat8e4m3,
  ncclFloat8e5m2
};
using ncclComm_t = struct ncclComm*;
struct ncclUniqueId {
  char internal[NCCL_UNIQUE_ID_BYTES];
};
struct ncclConfig_t {
  int blocking;
};

ncclResult_t ncclRedOpDestroy(ncclRedOp_t op, ncclComm_t comm);
