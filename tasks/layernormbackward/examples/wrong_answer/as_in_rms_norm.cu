//!POPCORN leaderboard layernormbackward
// Forgets that the mean depends on every input, too: it subtracts the part along the normalised token, but not the mean
// of the gradients.  That is the backward pass of an RMS norm.
//
// Right where gradients sum to zero, and for `dweight` and `dbias`.
#include "task.h"

struct Arrays {
    const float *dy, *x, *weight, *mean, *rstd;
    float *dx, *dweight, *dbias;
    int64_t tokens, hidden;
};

HOST_DEVICE float normal_at(const Arrays &a, int64_t token, int64_t j) {
    return (a.x[token * a.hidden + j] - a.mean[token]) * a.rstd[token];
}

HOST_DEVICE void fill_token(const Arrays &a, int64_t token) {
    const float *dy = a.dy + token * a.hidden;
    float along = 0;
    for (int64_t j = 0; j < a.hidden; ++j) along += dy[j] * a.weight[j] * normal_at(a, token, j);
    for (int64_t j = 0; j < a.hidden; ++j) {
        const float scaled = dy[j] * a.weight[j];
        a.dx[token * a.hidden + j] = a.rstd[token] * (scaled - normal_at(a, token, j) * along / a.hidden);
    }
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
