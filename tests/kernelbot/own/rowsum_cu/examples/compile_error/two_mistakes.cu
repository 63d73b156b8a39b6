//!POPCORN leaderboard rowsum_cu
#include "task.h"

void row_sums(const int* numbers, int rows, int columns, long long* sums) {
    sums[0] = numbers[0] + nothing;
    for (int row = 1; row < rows; ++row) sums[row] = neither;
}
