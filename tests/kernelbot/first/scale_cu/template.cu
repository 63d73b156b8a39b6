//!POPCORN leaderboard scale
#include "task.h"

void scale(float *x, int size) {
  for (int i = 0; i < size; ++i) x[i] *= 2;
}
