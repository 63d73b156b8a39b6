"""NVIDIA's driver library for machines without one, written from its documentation and compiled here.

root/ledger/<pid>      the bytes that this process holds on the GPU with the UUID, until it ends, as with a real driver
root/gpu/<what>        what this GPU reports: clock (MHz), temperature (°C), power (mW), reasons (bits), heat_ns, others
                       (processes), ecc (errors), used (bytes); without the file it does not support the question
"""

import subprocess
from pathlib import Path

UUID = "GPU-0a1b2c3d-0000-1111-2222-333333333330"
DRIVER = r"""
#include <cstdio>
#include <cstring>
#include <dirent.h>
#include <string>

struct Memory { unsigned long long total, free, used; };
struct MemoryV2 { unsigned version; unsigned long long total, reserved, free, used; };
static const std::string root = ROOT, ledger = root + "/ledger";

static unsigned long long number(const std::string& path) {
    unsigned long long value = 0;
    if (FILE* file = fopen(path.c_str(), "r")) {
        if (fscanf(file, "%llu", &value) != 1) value = 0;
        fclose(file);
    }
    return value;
}

// NVML_ERROR_NOT_SUPPORTED where the file is missing.
template <typename T> static int tell(const char* what, T* answer) {
    FILE* file = fopen((root + "/gpu/" + what).c_str(), "r");
    if (!file) return 3;
    fclose(file);
    *answer = number(root + "/gpu/" + what);
    return 0;
}

static bool is_ready = false;

extern "C" {
int nvmlInit_v2() { is_ready = true; return 0; }
int nvmlDeviceGetCount_v2(unsigned* count) { *count = 3; return is_ready ? 0 : 1; }  // NVML_ERROR_UNINITIALIZED
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void** device) {
    if (!is_ready) return 1;
    *device = (void*)(unsigned long)index;
    return index ? 0 : 4;  // NVML_ERROR_NO_PERMISSION: the first GPU is not in this container
}
int nvmlDeviceGetMinorNumber(void* device, unsigned* minor) { *minor = device == (void*)1 ? 3 : 0; return 0; }
int nvmlDeviceGetHandleByUUID(const char* uuid, void** device) {
    if (!is_ready) return 1;
    *device = (void*)2;
    return strcmp(uuid, UUID) ? 6 : 0;  // NVML_ERROR_NOT_FOUND
}
int nvmlDeviceGetMemoryInfo(void* device, Memory* memory) {
    *memory = {8ull << 30, 0, 1ull << 30};
    DIR* folder = opendir(ledger.c_str());
    if (!folder) return 15;  // NVML_ERROR_GPU_IS_LOST
    while (dirent* entry = readdir(folder))
        if (device == (void*)2 && number("/proc/" + std::string(entry->d_name) + "/statm"))
            memory->used += number(ledger + "/" + entry->d_name);
    closedir(folder);
    memory->free = memory->total - memory->used;
    return 0;
}
int nvmlDeviceGetMemoryInfo_v2(void*, MemoryV2* memory) {
    if (memory->version != 0x02000028) return 25;  // NVML_ERROR_ARGUMENT_VERSION_MISMATCH
    memory->total = 8ull << 30;
    memory->reserved = 1ull << 30;
    return tell("used", &memory->used);
}
int nvmlDeviceGetName(void*, char* name, unsigned size) { strncpy(name, "NVIDIA H200", size); return 0; }
int nvmlSystemGetDriverVersion(char* version, unsigned size) { strncpy(version, "570.86.10", size); return 0; }
int nvmlDeviceGetClockInfo(void*, int type, unsigned* mhz) { return type == 1 ? tell("clock", mhz) : 3; }
int nvmlDeviceGetMaxClockInfo(void*, int type, unsigned* mhz) { *mhz = 1980; return type == 1 ? 0 : 3; }
int nvmlDeviceGetTemperature(void*, int sensor, unsigned* c) { return sensor ? 2 : tell("temperature", c); }
int nvmlDeviceGetPowerUsage(void*, unsigned* mw) { return tell("power", mw); }
int nvmlDeviceGetCurrentClocksThrottleReasons(void*, unsigned long long* bits) { return tell("reasons", bits); }
int nvmlDeviceGetViolationStatus(void*, int policy, unsigned long long times[2]) {
    times[0] = 1;
    return policy == 1 ? tell("heat_ns", &times[1]) : 3;
}
int nvmlDeviceGetTotalEccErrors(void*, int kind, int since, unsigned long long* errors) {
    return kind == 1 && since == 0 ? tell("ecc", errors) : 3;
}
int nvmlDeviceGetComputeRunningProcesses_v3(void*, unsigned* count, void* infos) {
    if (int code = tell("others", count)) return code;
    return *count && !infos ? 7 : 0;  // NVML_ERROR_INSUFFICIENT_SIZE
}
}
"""


def install(root: Path) -> None:
    """Install the driver below `root`, as on a machine."""
    folder = root / "usr/local/nvidia/lib64"
    folder.mkdir(parents=True)
    (folder / "libcuda.so.1").touch()
    for name in ("ledger", "gpu"):
        (root / name).mkdir()
    (root / "driver.cpp").write_text(DRIVER)
    names = [f'-DROOT="{root}"', f'-DUUID="{UUID}"']
    library = folder / "libnvidia-ml.so.1"
    subprocess.run(["g++", "-shared", "-fPIC", *names, "-o", library, root / "driver.cpp"], check=True)


def tell(root: Path, **facts: int) -> None:
    """Let the GPU report this from now on, and nothing else."""
    for file in (root / "gpu").iterdir():
        file.unlink()
    for what, value in facts.items():
        (root / "gpu" / what).write_text(str(value))
