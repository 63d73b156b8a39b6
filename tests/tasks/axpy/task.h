#pragma once
#include <cstdint>

// What every submission defines; the declaration makes it callable from C.
extern "C" void axpy(float a, const float *x, float *y, int64_t size);
