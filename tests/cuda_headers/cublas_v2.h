#pragma once

enum cublasStatus_t { CUBLAS_STATUS_SUCCESS };
using cublasHandle_t = struct cublasContext*;
