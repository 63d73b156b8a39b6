#pragma once

// Write the sum of each row of `numbers`, rows x columns, to `sums`.
void row_sums(const int* numbers, int rows, int columns, long long* sums);
