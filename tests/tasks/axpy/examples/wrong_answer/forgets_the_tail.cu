//!POPCORN leaderboard axpy
#include "task.h"

void axpy(float a, const float *x, float *y, int64_t size) {
    for (int64_t i = 0; i + AXPY_UNROLL <= size; i += AXPY_UNROLL)
        for (int64_t j = i; j < i + AXPY_UNROLL; ++j) y[j] += a * x[j];
}
