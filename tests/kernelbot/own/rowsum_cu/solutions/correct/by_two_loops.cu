//!POPCORN leaderboard rowsum_cu
#include "task.h"

void row_sums(const int* numbers, int rows, int columns, long long* sums) {
    for (int row = 0; row < rows; ++row) {
        sums[row] = 0;
        for (int column = 0; column < columns; ++column) sums[row] += numbers[row * columns + column];
    }
}
