//!POPCORN leaderboard rowsum_cu
#include "task.h"

void rowsums(const int*, int, int, long long*) {}
