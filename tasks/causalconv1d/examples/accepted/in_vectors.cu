//!POPCORN leaderboard causalconv1d
// Only a sequence's first outputs check whether it has begun.  On a CPU all others are computed in vectors,
// exponentials included; on a GPU a thread computes four outputs from two loads of four inputs each, the first of which
// its neighbour has just brought into the cache.
#include "task.h"

#ifdef __CUDACC__

constexpr int THREADS = 128;

__device__ float silu(float sum) { return __fdividef(sum, 1 + __expf(-sum)); }

// Inputs from `t` on; zeros before the sequence and after it.
template <bool IS_ALIGNED>
__device__ float4 load_four(const float *x, int64_t t, int64_t length) {
    if (t < 0) return float4{0, 0, 0, 0};
    if (IS_ALIGNED) return *reinterpret_cast<const float4 *>(x + t);
    auto at = [&](int64_t place) { return place < length ? x[place] : 0.0f; };
    return float4{at(t), at(t + 1), at(t + 2), at(t + 3)};
}

// One block for each sequence.  If IS_ALIGNED, `length` is a multiple of 4.
template <bool IS_ALIGNED>
__global__ void convolve(const float *x, const float4 *weight, const float *bias, float *y, int64_t channels,
                         int64_t length) {
    const int64_t row = blockIdx.x, channel = row % channels;
    const float4 w = weight[channel];
    const float b = bias[channel];
    x += row * length;
    y += row * length;
    for (int64_t t = 4 * threadIdx.x; t < length; t += 4 * THREADS) {
        const float4 before = load_four<IS_ALIGNED>(x, t - 4, length), now = load_four<IS_ALIGNED>(x, t, length);
        const float in[7] = {before.y, before.z, before.w, now.x, now.y, now.z, now.w};
        float out[4];
        for (int i = 0; i < 4; ++i)
            out[i] = silu(b + w.x * in[i] + w.y * in[i + 1] + w.z * in[i + 2] + w.w * in[i + 3]);
        if (IS_ALIGNED)
            *reinterpret_cast<float4 *>(y + t) = float4{out[0], out[1], out[2], out[3]};
        else
            for (int i = 0; i < 4 && t + i < length; ++i) y[t + i] = out[i];
    }
}

void causal_conv1d(const float *x, const float *weight, const float *bias, float *y, int64_t batch, int64_t channels,
                   int64_t length, stream_t stream) {
    const auto chosen = length % 4 ? convolve<false> : convolve<true>;
    const auto weights = reinterpret_cast<const float4 *>(weight);
    chosen<<<batch * channels, THREADS, 0, stream>>>(x, weights, bias, y, channels, length);
}

#else

#include <algorithm>
#include <bit>

// exp(v) to a few units in the last place, for v from -87 to 87: a power of two times a polynomial.
inline float exponential(float v) {
    constexpr float ROUND = 3 << 22;  // has no fraction bits, so that a sum with it is rounded to an integer
    const float shifted = v * 1.44269504f + ROUND, power = shifted - ROUND;
    const float rest = (v - power * 0.693145752f) - power * 1.42860677e-6f;
    const float series =
        1 + rest * (1 + rest * (1 / 2.f + rest * (1 / 6.f + rest * (1 / 24.f + rest * (1 / 120.f + rest / 720)))));
    return series * std::bit_cast<float>((std::bit_cast<int32_t>(shifted) << 23) + (127 << 23));
}

inline float silu(float sum) { return sum / (1 + exponential(std::min(std::max(-sum, -87.f), 87.f))); }

void causal_conv1d(const float *x, const float *weight, const float *bias, float *y, int64_t batch, int64_t channels,
                   int64_t length, stream_t) {
    for (int64_t row = 0; row < batch * channels; ++row, x += length, y += length) {
        const float *w = weight + row % channels * WIDTH;
        const float b = bias[row % channels];
        for (int64_t t = 0; t < std::min<int64_t>(length, WIDTH - 1); ++t) {
            float sum = b;
            for (int64_t place = 0; place <= t; ++place) sum += w[place - t + WIDTH - 1] * x[place];
            y[t] = silu(sum);
        }
#pragma omp simd
        for (int64_t t = WIDTH - 1; t < length; ++t)
            y[t] = silu(b + w[0] * x[t - 3] + w[1] * x[t - 2] + w[2] * x[t - 1] + w[3] * x[t]);
    }
}

#endif
