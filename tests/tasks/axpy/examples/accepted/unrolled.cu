//!POPCORN leaderboard axpy
#include "task.h"

void axpy(float a, const float *__restrict__ x, float *__restrict__ y, int64_t size) {
    int64_t i = 0;
    for (; i + AXPY_UNROLL <= size; i += AXPY_UNROLL)
        for (int64_t j = i; j < i + AXPY_UNROLL; ++j) y[j] += a * x[j];
    for (; i < size; ++i) y[i] += a * x[i];
}
