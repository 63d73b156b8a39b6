//!POPCORN leaderboard rowsum_cu
#include "task.h"

void row_sums(const int*, int, int, long long*) {
    *static_cast<volatile int*>(nullptr) = 1;
}
