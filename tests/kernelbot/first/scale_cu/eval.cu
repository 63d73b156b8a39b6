#include "task.h"

int main() { return 0; }
