// A CUDA driver without a GPU: the functions that PullRank calls, on memory of the host.
//
// Device memory is a memfd, a shared handle is its descriptor, and a device address is a host address.  Each stream is
// a thread.  A kernel runs in slices, and only while it holds the lock of "the GPU": the file of this library, which all
// processes share.  So one context runs at a time, and a kernel that never ends does not keep others out.  The lock of a
// process that is stopped in the middle of a slice is passed over.  Times are the machine's own.
//
// Environment: FAKE_GPU_ABSENT, FAKE_GPU_MPS, FAKE_GPU_EXCLUSIVE; FAKE_GPU_BYTES limits the size of one allocation;
// with FAKE_GPU_SHRINKS, a process with a descriptor of memory can change its size, which is impossible on a GPU.

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <deque>
#include <dlfcn.h>
#include <fcntl.h>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <thread>
#include <unistd.h>
#include <vector>

namespace {

enum Result { SUCCESS = 0, INVALID_VALUE = 1, OUT_OF_MEMORY = 2, NO_DEVICE = 100, INVALID_HANDLE = 400, NOT_FOUND = 500,
              NOT_READY = 600 };
constexpr size_t GRANULARITY = 2 << 20;
constexpr int64_t SLICE_NS = 1'000'000;
constexpr int64_t PATIENCE_NS = 300'000'000;

int64_t now_ns() {
    timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1'000'000'000LL + time.tv_nsec;
}

size_t limit() {
    const char *text = getenv("FAKE_GPU_BYTES");
    return text ? strtoull(text, nullptr, 10) : 1ULL << 32;
}

const char *path_of_this_library() {
    Dl_info facts;
    dladdr((void *)&path_of_this_library, &facts);
    return facts.dli_fname;
}

// The lock of the GPU.  Each stream has its own, because flock excludes open files, not threads.
class Gpu {
  public:
    Gpu() : file_(open(path_of_this_library(), O_RDONLY | O_CLOEXEC)) {}
    ~Gpu() { close(file_); }
    void take() {
        for (int64_t give_up = now_ns() + PATIENCE_NS; flock(file_, LOCK_EX | LOCK_NB) && now_ns() < give_up;)
            usleep(50);
    }
    void leave() { flock(file_, LOCK_UN); }

  private:
    int file_;
};

// What a kernel may do while it runs: read the clock, and give the GPU to others after each slice.
class Running {
  public:
    explicit Running(Gpu &gpu) : gpu_(gpu) { begin(); }
    ~Running() { gpu_.leave(); }
    void pause() {
        if (now_ns() - began_ < SLICE_NS) return;
        gpu_.leave();
        usleep(50);
        begin();
    }

  private:
    void begin() {
        gpu_.take();
        began_ = now_ns();
    }
    Gpu &gpu_;
    int64_t began_ = 0;
};

volatile uint32_t *words(uint64_t address) { return (volatile uint32_t *)address; }

using Arguments = std::vector<uint64_t>;
using Kernel = void (*)(Running &, const Arguments &);

void wait(Running &running, uint64_t ns) {
    for (int64_t end = now_ns() + int64_t(ns); now_ns() < end;) running.pause();
}

// Read, wait, and write one more.
void add_one(Running &running, const Arguments &a) {
    std::vector<uint32_t> read(words(a[1]), words(a[1]) + a[2]);
    wait(running, a[3]);
    for (uint64_t i = 0; i < a[2]; i++) words(a[0])[i] = read[i] + 1;
}

const std::map<std::string, Kernel> KERNELS = {
    {"copy", [](Running &, const Arguments &a) { memcpy((void *)a[0], (void *)a[1], a[2] * 16); }},
    {"fill", [](Running &, const Arguments &a) {
         for (uint64_t i = 0; i < a[2] * 4; i++) words(a[0])[i] = uint32_t(a[1]);
     }},
    {"spin", add_one},
    {"poll", [](Running &running, const Arguments &a) {
         while (*words(a[1]) == uint32_t(a[4])) running.pause();
         add_one(running, a);
     }},
    {"stamp", [](Running &running, const Arguments &a) {
         auto log = (volatile uint64_t *)a[0];
         log[0] = now_ns();
         wait(running, a[1]);
         log[1] = now_ns();
     }},
    {"gaps", [](Running &running, const Arguments &a) {
         auto log = (volatile uint64_t *)a[0];
         uint64_t found = 0, begin = now_ns(), time = begin;
         for (uint64_t before = begin; time < begin + a[3] && found < a[1]; before = time) {
             running.pause();
             if ((time = now_ns()) - before > a[2]) {
                 log[3 + 2 * found] = before;
                 log[4 + 2 * found++] = time;
             }
         }
         log[0] = found;
         log[1] = begin;
         log[2] = time;
     }},
};

class Stream {
  public:
    Stream() : thread_([this] { run(); }) { thread_.detach(); }
    void add(std::function<void(Gpu &)> work) {
        std::lock_guard guard(mutex_);
        queue_.push_back(std::move(work));
        changed_.notify_all();
    }
    bool is_idle() {
        std::lock_guard guard(mutex_);
        return queue_.empty();
    }
    void synchronize() {
        std::unique_lock guard(mutex_);
        changed_.wait(guard, [this] { return queue_.empty(); });
    }

  private:
    void run() {
        Gpu gpu;
        for (std::unique_lock guard(mutex_);;) {
            changed_.wait(guard, [this] { return !queue_.empty(); });
            auto work = queue_.front();
            guard.unlock();
            work(gpu);
            guard.lock();
            queue_.pop_front();
            changed_.notify_all();
        }
    }
    std::mutex mutex_;
    std::condition_variable changed_;
    std::deque<std::function<void(Gpu &)>> queue_;
    std::thread thread_;
};

struct Event {
    std::atomic<int64_t> at{0};
};

std::vector<Stream *> streams;

Stream *of(void *stream) {
    static Stream *standard = nullptr;
    if (stream) return static_cast<Stream *>(stream);
    if (!standard) streams.push_back(standard = new Stream);
    return standard;
}

}  // namespace

struct Location { int type, id; };
struct Properties { int type, handles; Location location; void *win32; uint8_t flags[8]; };

extern "C" {

int cuInit(unsigned) {
    return getenv("FAKE_GPU_ABSENT") ? NO_DEVICE : SUCCESS;
}

int cuGetErrorName(int code, const char **name) {
    static const std::map<int, const char *> names = {
        {INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE"}, {OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY"},
        {NO_DEVICE, "CUDA_ERROR_NO_DEVICE"}, {INVALID_HANDLE, "CUDA_ERROR_INVALID_HANDLE"},
        {NOT_FOUND, "CUDA_ERROR_NOT_FOUND"}, {NOT_READY, "CUDA_ERROR_NOT_READY"}};
    auto found = names.find(code);
    *name = found == names.end() ? nullptr : found->second;
    return *name ? SUCCESS : INVALID_VALUE;
}

int cuDeviceGet(int *device, int ordinal) { return *device = ordinal, ordinal ? NO_DEVICE : SUCCESS; }
int cuDeviceGetAttribute(int *value, int attribute, int) {
    switch (attribute) {
    case 20: return *value = getenv("FAKE_GPU_EXCLUSIVE") ? 3 : 0, SUCCESS;  // compute mode
    case 38: return *value = 1 << 16, SUCCESS;                               // L2 cache
    case 75: return *value = 9, SUCCESS;                                     // compute capability
    case 76: return *value = 0, SUCCESS;
    case 102: case 103: return *value = 1, SUCCESS;                          // virtual memory, descriptors of it
    case 122: return *value = 1, SUCCESS;                                    // streams wait for values
    case 133: return *value = getenv("FAKE_GPU_MPS") != nullptr, SUCCESS;
    default: return INVALID_VALUE;
    }
}
int cuDevicePrimaryCtxRetain(void **context, int) { return *context = (void *)1, SUCCESS; }
int cuCtxSetCurrent(void *) { return SUCCESS; }
int cuCtxSynchronize() {
    for (auto *stream : streams) stream->synchronize();
    return SUCCESS;
}

int cuMemGetAllocationGranularity(size_t *size, const Properties *, int) { return *size = GRANULARITY, SUCCESS; }

int cuMemCreate(uint64_t *handle, size_t size, const Properties *wanted, unsigned long long) {
    if (!size || size % GRANULARITY || wanted->type != 1 || wanted->handles != 1 || wanted->location.type != 1)
        return INVALID_VALUE;
    if (size > limit()) return OUT_OF_MEMORY;
    int file = memfd_create("device memory", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (file < 0 || ftruncate(file, off_t(size))) return OUT_OF_MEMORY;
    if (!getenv("FAKE_GPU_SHRINKS")) fcntl(file, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW);
    return *handle = uint64_t(file), SUCCESS;
}

int cuMemExportToShareableHandle(int *descriptor, uint64_t handle, int type, unsigned long long) {
    if (type != 1) return INVALID_VALUE;
    *descriptor = fcntl(int(handle), F_DUPFD_CLOEXEC, 0);
    return *descriptor < 0 ? INVALID_HANDLE : SUCCESS;
}

int cuMemImportFromShareableHandle(uint64_t *handle, void *descriptor, int type) {
    struct stat facts;
    int file = int(intptr_t(descriptor));
    if (type != 1 || fstat(file, &facts)) return INVALID_VALUE;
    if (size_t(facts.st_size) > limit()) return OUT_OF_MEMORY;
    return *handle = uint64_t(fcntl(file, F_DUPFD_CLOEXEC, 0)), SUCCESS;
}

int cuMemRelease(uint64_t handle) { return close(int(handle)) ? INVALID_HANDLE : SUCCESS; }

int cuMemAddressReserve(uint64_t *address, size_t size, size_t, uint64_t, unsigned long long) {
    void *at = mmap(nullptr, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return at == MAP_FAILED ? OUT_OF_MEMORY : (*address = uint64_t(at), SUCCESS);
}

int cuMemMap(uint64_t address, size_t size, size_t offset, uint64_t handle, unsigned long long) {
    struct stat facts;
    if (offset || fstat(int(handle), &facts) || size != size_t(facts.st_size)) return INVALID_VALUE;
    void *at = mmap((void *)address, size, PROT_NONE, MAP_SHARED | MAP_FIXED, int(handle), 0);
    return at == MAP_FAILED ? INVALID_VALUE : SUCCESS;
}

int cuMemSetAccess(uint64_t address, size_t size, const void *, size_t) {
    return mprotect((void *)address, size, PROT_READ | PROT_WRITE) ? INVALID_VALUE : SUCCESS;
}

int cuMemUnmap(uint64_t address, size_t size) {
    void *at = mmap((void *)address, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    return at == MAP_FAILED ? INVALID_VALUE : SUCCESS;
}

int cuMemAddressFree(uint64_t address, size_t size) {
    return munmap((void *)address, size) ? INVALID_VALUE : SUCCESS;
}

int cuMemAlloc_v2(uint64_t *address, size_t size) {
    if (size > limit()) return OUT_OF_MEMORY;
    void *memory = aligned_alloc(4096, (size + 4095) / 4096 * 4096);
    return memory ? (*address = uint64_t(memory), SUCCESS) : OUT_OF_MEMORY;
}

int cuMemFree_v2(uint64_t address) { return free((void *)address), SUCCESS; }
int cuMemHostAlloc(void **memory, size_t size, unsigned) {
    *memory = aligned_alloc(4096, (size + 4095) / 4096 * 4096);
    return *memory ? SUCCESS : OUT_OF_MEMORY;
}
int cuMemFreeHost(void *memory) { return free(memory), SUCCESS; }
int cuMemcpyHtoD_v2(uint64_t target, const void *source, size_t size) {
    cuCtxSynchronize();
    return memcpy((void *)target, source, size), SUCCESS;
}
int cuMemcpyDtoH_v2(void *target, uint64_t source, size_t size) {
    cuCtxSynchronize();
    return memcpy(target, (void *)source, size), SUCCESS;
}

int cuMemcpyDtoD_v2(uint64_t target, uint64_t source, size_t size) {
    cuCtxSynchronize();
    // Not memcpy, which crashes where there is no memory.
    iovec to{(void *)target, size}, from{(void *)source, size};
    return process_vm_readv(getpid(), &to, 1, &from, 1, 0) == ssize_t(size) ? SUCCESS : INVALID_VALUE;
}

int cuStreamCreate(void **stream, unsigned) {
    auto *made = new Stream;
    streams.push_back(made);
    return *stream = made, SUCCESS;
}
int cuStreamQuery(void *stream) { return of(stream)->is_idle() ? SUCCESS : NOT_READY; }
int cuCtxResetPersistingL2Cache() { return SUCCESS; }
int cuStreamSynchronize(void *stream) { return of(stream)->synchronize(), SUCCESS; }

int cuMemsetD32Async(uint64_t address, uint32_t value, size_t count, void *stream) {
    of(stream)->add([=](Gpu &) {
        for (size_t i = 0; i < count; i++) words(address)[i] = value;
    });
    return SUCCESS;
}

int cuStreamWaitValue32_v2(void *stream, uint64_t address, uint32_t value, unsigned flags) {
    if (flags != 1) return INVALID_VALUE;
    of(stream)->add([address, value](Gpu &) {
        while (*words(address) != value) usleep(50);
    });
    return SUCCESS;
}

int cuModuleLoadData(void **module, const void *ptx) { return *module = strdup(static_cast<const char *>(ptx)), SUCCESS; }

int cuModuleGetFunction(void **function, void *module, const char *name) {
    auto kernel = KERNELS.find(name);
    bool is_there = strstr(static_cast<const char *>(module), (std::string(".entry ") + name + "(").c_str());
    if (kernel == KERNELS.end() || !is_there) return NOT_FOUND;
    // How many parameters it has: commas in its list, plus one.
    const char *list = strstr(static_cast<const char *>(module), (std::string(".entry ") + name + "(").c_str());
    size_t count = 1;
    for (const char *at = list; *at != ')'; at++) count += *at == ',';
    *function = new std::pair<Kernel, size_t>(kernel->second, count);
    return SUCCESS;
}

int cuLaunchKernel(void *function, unsigned, unsigned, unsigned, unsigned threads, unsigned, unsigned, unsigned,
                   void *stream, void **parameters, void **) {
    if (threads > 1024) return INVALID_VALUE;
    auto [kernel, count] = *static_cast<std::pair<Kernel, size_t> *>(function);
    Arguments arguments;
    for (size_t i = 0; i < count; i++) arguments.push_back(*static_cast<uint64_t *>(parameters[i]));
    of(stream)->add([kernel = kernel, arguments](Gpu &gpu) {
        Running running(gpu);
        kernel(running, arguments);
    });
    return SUCCESS;
}

int cuEventDestroy_v2(void *) { return SUCCESS; }
int cuStreamDestroy_v2(void *) { return SUCCESS; }
int cuModuleUnload(void *module) { return free(module), SUCCESS; }

int cuEventCreate(void **event, unsigned) { return *event = new Event, SUCCESS; }
int cuEventRecord(void *event, void *stream) {
    auto *it = static_cast<Event *>(event);
    it->at = 0;
    of(stream)->add([it](Gpu &gpu) {
        gpu.take();
        it->at = now_ns();
        gpu.leave();
    });
    return SUCCESS;
}
int cuEventElapsedTime(float *milliseconds, void *start, void *end) {
    int64_t from = static_cast<Event *>(start)->at, to = static_cast<Event *>(end)->at;
    if (!from || !to) return NOT_READY;
    return *milliseconds = float(double(to - from) / 1e6), SUCCESS;
}

}  // extern "C"
