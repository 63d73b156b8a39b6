"""Load a library that starts a thread of its own as soon as it is loaded, as some runtimes do.

Needs: g++
"""

import ctypes
import subprocess

import torch

SOURCE = r"""
#include <chrono>
#include <thread>
static std::thread *runtime;
static volatile long ticks = 0;
__attribute__((constructor)) static void start() {
    runtime = new std::thread([] {
        for (;;) { std::this_thread::sleep_for(std::chrono::milliseconds(1)); ticks = ticks + 1; }
    });
}
extern "C" long tick() { return ticks; }
"""

command = ["g++", "-shared", "-fPIC", "-pthread", "-x", "c++", "-", "-o", "/tmp/runtime.so"]
subprocess.run(command, input=SOURCE.encode(), check=True)
runtime = ctypes.CDLL("/tmp/runtime.so")


def custom_kernel(data):
    values, output, scale = data
    start = runtime.tick()
    while runtime.tick() == start:
        pass
    return torch.mul(values.sort().values, scale, out=output)
