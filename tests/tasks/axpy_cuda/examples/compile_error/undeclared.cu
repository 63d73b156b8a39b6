//!POPCORN leaderboard axpy_cuda
#include "task.h"

__global__ void add_scaled(float a, const float *x, float *y, int64_t size) {
    const int64_t i = int64_t{blockIdx.x} * AXPY_BLOCK + threadIdx.x;
    if (i < size) y[i] += a * z[i];
}

void axpy(float a, const float *x, float *y, int64_t size, cudaStream_t stream) {
    add_scaled<<<(size + AXPY_BLOCK - 1) / AXPY_BLOCK, AXPY_BLOCK, 0, stream>>>(a, x, y, size);
}
