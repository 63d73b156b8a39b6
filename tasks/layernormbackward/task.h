#pragma once
#include <cstdint>

// g++ compiles for the board CPU, nvcc for all others; nvcc alone defines __CUDACC__.
#ifdef __CUDACC__
#include <cuda_runtime.h>
#define HOST_DEVICE __host__ __device__
using stream_t = cudaStream_t;
#else
#define HOST_DEVICE
using stream_t = void *;
#endif

// Every submission defines this function, with these very types; the declaration gives it C linkage.
extern "C" void layer_norm_backward(const float *dy, const float *x, const float *weight, const float *mean,
                                    const float *rstd, float *dx, float *dweight, float *dbias, int64_t tokens,
                                    int64_t hidden, stream_t stream);
