//!POPCORN leaderboard axpy
void add_scaled(float a, const float *x, float *y, long size) {
    for (long i = 0; i < size; ++i) y[i] += a * x[i];
}
