//!POPCORN leaderboard layernormbackward
// Many sums at once, everywhere.  On a CPU a token stays in the cache as long as it is needed, its sums are kept in
// vectors, and it is added to the columns' sums on the way.  On a GPU a warp sums a token by shuffles, and the columns
// are summed in slices of the tokens; atomics add up the slices' sums, in any order.
#include "task.h"

#ifdef __CUDACC__

constexpr int WARP = 32, WARPS = 8, SLICE = 256;

__device__ float sum_of_warp(float value) {
    for (int distance = WARP / 2; distance; distance /= 2) value += __shfl_xor_sync(0xffffffff, value, distance);
    return value;
}

// One warp for each token.
__global__ void fill_dx(const float *dy, const float *x, const float *weight, const float *mean, const float *rstd,
                        float *dx, int64_t tokens, int64_t hidden) {
    const int64_t token = int64_t{blockIdx.x} * WARPS + threadIdx.y;
    if (token >= tokens) return;
    const float m = mean[token], r = rstd[token];
    dy += token * hidden, x += token * hidden, dx += token * hidden;
    float sum = 0, along = 0;
    for (int64_t j = threadIdx.x; j < hidden; j += WARP) {
        const float scaled = dy[j] * weight[j];
        sum += scaled;
        along += scaled * (x[j] - m);
    }
    sum = sum_of_warp(sum) / hidden;
    along = sum_of_warp(along) / hidden * r * r;
    for (int64_t j = threadIdx.x; j < hidden; j += WARP) dx[j] = r * (dy[j] * weight[j] - sum - (x[j] - m) * along);
}

// One block for 32 columns and SLICE tokens; each of its warps takes every eighth token.
__global__ void add_sums(const float *dy, const float *x, const float *mean, const float *rstd, float *dweight,
                         float *dbias, int64_t tokens, int64_t hidden) {
    __shared__ float sums[2][WARPS][WARP];
    const int64_t j = int64_t{blockIdx.x} * WARP + threadIdx.x;
    const int64_t first = int64_t{blockIdx.y} * SLICE, end = min(first + SLICE, tokens);
    float of_weight = 0, of_bias = 0;
    for (int64_t token = first + threadIdx.y; token < end && j < hidden; token += WARPS) {
        const float gradient = dy[token * hidden + j];
        of_weight += gradient * ((x[token * hidden + j] - mean[token]) * rstd[token]);
        of_bias += gradient;
    }
    sums[0][threadIdx.y][threadIdx.x] = of_weight;
    sums[1][threadIdx.y][threadIdx.x] = of_bias;
    __syncthreads();
    if (threadIdx.y > 1 || j >= hidden) return;
    float sum = 0;
    for (int warp = 0; warp < WARPS; ++warp) sum += sums[threadIdx.y][warp][threadIdx.x];
    atomicAdd((threadIdx.y ? dbias : dweight) + j, sum);
}

void layer_norm_backward(const float *dy, const float *x, const float *weight, const float *mean, const float *rstd,
                         float *dx, float *dweight, float *dbias, int64_t tokens, int64_t hidden, stream_t stream) {
    const dim3 threads(WARP, WARPS), blocks((hidden + WARP - 1) / WARP, (tokens + SLICE - 1) / SLICE);
    fill_dx<<<(tokens + WARPS - 1) / WARPS, threads, 0, stream>>>(dy, x, weight, mean, rstd, dx, tokens, hidden);
    cudaMemsetAsync(dweight, 0, hidden * sizeof(float), stream);
    cudaMemsetAsync(dbias, 0, hidden * sizeof(float), stream);
    add_sums<<<blocks, threads, 0, stream>>>(dy, x, mean, rstd, dweight, dbias, tokens, hidden);
}

#else

#include <algorithm>

void layer_norm_backward(const float *dy, const float *x, const float *weight, const float *mean, const float *rstd,
                         float *dx, float *dweight, float *dbias, int64_t tokens, int64_t hidden, stream_t) {
    std::fill_n(dweight, hidden, 0.0f);
    std::fill_n(dbias, hidden, 0.0f);
    for (int64_t token = 0; token < tokens; ++token, dy += hidden, x += hidden, dx += hidden) {
        const float m = mean[token], r = rstd[token];
        float sum = 0, along = 0;
#pragma omp simd reduction(+ : sum, along)
        for (int64_t j = 0; j < hidden; ++j) {
            const float normal = (x[j] - m) * r;
            sum += dy[j] * weight[j];
            along += dy[j] * weight[j] * normal;
            dweight[j] += dy[j] * normal;
            dbias[j] += dy[j];
        }
        sum /= hidden;
        along /= hidden;
#pragma omp simd
        for (int64_t j = 0; j < hidden; ++j) dx[j] = r * (dy[j] * weight[j] - sum - (x[j] - m) * r * along);
    }
}

#endif
