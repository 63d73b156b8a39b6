//!POPCORN leaderboard causalconv1d
//!POPCORN gpus CPU
// Leaves out `const`: to C++ that is a second function of the same name, and the one that `task.h` declares, which
// Python can call, is never defined.
#include "task.h"

#include <cmath>

void causal_conv1d(float *x, float *weight, float *bias, float *y, int64_t batch, int64_t channels, int64_t length,
                   stream_t) {
    for (int64_t row = 0; row < batch * channels; ++row)
        for (int64_t t = 0; t < length; ++t) {
            float sum = bias[row % channels];
            for (int64_t k = t < WIDTH - 1 ? WIDTH - 1 - t : 0; k < WIDTH; ++k)
                sum += weight[row % channels * WIDTH + k] * x[row * length + t - (WIDTH - 1) + k];
            y[row * length + t] = sum / (1 + std::exp(-sum));
        }
}
