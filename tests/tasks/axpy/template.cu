//!POPCORN leaderboard axpy
#include "task.h"

void axpy(float a, const float *x, float *y, int64_t size) {
    for (int64_t i = 0; i < size; ++i) y[i] += a * x[i];
}
