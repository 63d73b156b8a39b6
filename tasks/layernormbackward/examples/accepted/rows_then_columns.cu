//!POPCORN leaderboard layernormbackward
// The formulas, one after the other: first `dx`, token by token, then `dweight` and `dbias` with all inputs read again.
#include "task.h"

#ifdef __CUDACC__

constexpr int THREADS = 256;

// Adds up one number from each thread, and returns the sum in all of them.
__device__ float sum_of_block(float value) {
    __shared__ float sums[THREADS];
    __syncthreads();
    sums[threadIdx.x] = value;
    for (int half = THREADS / 2; half; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half) sums[threadIdx.x] += sums[threadIdx.x + half];
    }
    __syncthreads();
    return sums[0];
}

// One block for each token.
__global__ void fill_dx(const float *dy, const float *x, const float *weight, const float *mean, const float *rstd,
                        float *dx, int64_t hidden) {
    const int64_t token = blockIdx.x, row = token * hidden;
    float sum = 0, along = 0;
    for (int64_t j = threadIdx.x; j < hidden; j += THREADS) {
        const float scaled = dy[row + j] * weight[j];
        sum += scaled;
        along += scaled * ((x[row + j] - mean[token]) * rstd[token]);
    }
    sum = sum_of_block(sum) / hidden;
    along = sum_of_block(along) / hidden;
    for (int64_t j = threadIdx.x; j < hidden; j += THREADS) {
        const float normal = (x[row + j] - mean[token]) * rstd[token];
        dx[row + j] = rstd[token] * (dy[row + j] * weight[j] - sum - normal * along);
    }
}

// One thread for each column.
__global__ void fill_sums(const float *dy, const float *x, const float *mean, const float *rstd, float *dweight,
                          float *dbias, int64_t tokens, int64_t hidden) {
    const int64_t j = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
    if (j >= hidden) return;
    float of_weight = 0, of_bias = 0;
    for (int64_t token = 0; token < tokens; ++token) {
        const float gradient = dy[token * hidden + j];
        of_weight += gradient * ((x[token * hidden + j] - mean[token]) * rstd[token]);
        of_bias += gradient;
    }
    dweight[j] = of_weight;
    dbias[j] = of_bias;
}

void layer_norm_backward(const float *dy, const float *x, const float *weight, const float *mean, const float *rstd,
                         float *dx, float *dweight, float *dbias, int64_t tokens, int64_t hidden, stream_t stream) {
    fill_dx<<<tokens, THREADS, 0, stream>>>(dy, x, weight, mean, rstd, dx, hidden);
    fill_sums<<<(hidden + 31) / 32, 32, 0, stream>>>(dy, x, mean, rstd, dweight, dbias, tokens, hidden);
}

#else

void layer_norm_backward(const float *dy, const float *x, const float *weight, const float *mean, const float *rstd,
                         float *dx, float *dweight, float *dbias, int64_t tokens, int64_t hidden, stream_t) {
    for (int64_t token = 0; token < tokens; ++token) {
        const int64_t row = token * hidden;
        float sum = 0, along = 0;
        for (int64_t j = 0; j < hidden; ++j) {
            const float scaled = dy[row + j] * weight[j];
            sum += scaled;
            along += scaled * ((x[row + j] - mean[token]) * rstd[token]);
        }
        sum /= hidden;
        along /= hidden;
        for (int64_t j = 0; j < hidden; ++j) {
            const float normal = (x[row + j] - mean[token]) * rstd[token];
            dx[row + j] = rstd[token] * (dy[row + j] * weight[j] - sum - normal * along);
        }
    }
    for (int64_t j = 0; j < hidden; ++j) dweight[j] = dbias[j] = 0;
    for (int64_t token = 0; token < tokens; ++token)
        for (int64_t j = 0; j < hidden; ++j) {
            const float gradient = dy[token * hidden + j];
            dweight[j] += gradient * ((x[token * hidden + j] - mean[token]) * rstd[token]);
            dbias[j] += gradient;
        }
}

#endif
