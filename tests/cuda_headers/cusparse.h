#pragma once

enum cusparseStatus_t { CUSPARSE_STATUS_SUCCESS };
using cusparseHandle_t = struct cusparseContext*;
const char* cusparseGetErrorString(cusparseStatus_t status);
