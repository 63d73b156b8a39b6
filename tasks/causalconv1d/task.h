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

constexpr int WIDTH = 4;

// Every submission defines this function, with these very types; the declaration gives it C linkage.
extern "C" void causal_conv1d(const float *x, const float *weight, const float *bias, float *y, int64_t batch,
                              int64_t channels, int64_t length, stream_t stream);
