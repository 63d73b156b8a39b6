// A CUDA driver without a GPU: the functions that PullRank calls, on memory of the host.
//
// Device memory is a memfd, a shared handle is its descriptor, and a device address is a host address.  Each stream is
// a thread.  A kernel runs in slices, and only while it holds the lock of "the GPU": the file of this library, which
// all processes share.  So one context runs at a time, and a kernel that never ends does not keep others out.  The lock
// of a process that is stopped in the middle of a slice is passed over.  Times are the machine's own.
//
// It refuses what NVIDIA's driver refuses, with the same error, as far as the "CUDA Driver API" describes it: calls
// without a context, in a forked process, or after a kernel has broken the context; unknown handles; sizes and ranges
// of memory; kernels that are too large.  Where the description leaves a choice, it takes the stricter one.  A launch
// waits while a stream's queue is full, which is not described, but known of all GPUs.  Unlike a GPU's, its kernels and
// copies may use any memory of the host, so that tests can compute with torch on a CPU.
//
// Environment: FAKE_GPU_INIT is the error of cuInit; FAKE_GPU_<number of an attribute> is the attribute's value, or ""
// if the driver is too old to know it; FAKE_GPU_BYTES limits the size of one allocation; with FAKE_GPU_SHRINKS, a
// process with a descriptor of memory can change its size, which is impossible on a GPU.

#include <array>
#include <atomic>
#include <climits>
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
#include <memory>
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

enum Result { SUCCESS = 0, INVALID_VALUE = 1, OUT_OF_MEMORY = 2, NOT_INITIALIZED = 3, NO_DEVICE = 100,
              INVALID_DEVICE = 101, INVALID_IMAGE = 200, INVALID_CONTEXT = 201, NO_BINARY_FOR_GPU = 209,
              INVALID_PTX = 218, INVALID_HANDLE = 400, NOT_FOUND = 500, NOT_READY = 600, ILLEGAL_ADDRESS = 700,
              NOT_SUPPORTED = 801 };
constexpr size_t GRANULARITY = 2 << 20, PAGE = 4096;
constexpr size_t MOST_QUEUED = 1024;
constexpr int CAPABILITY = 90;
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
void use(uint64_t address, size_t size);
bool is_broken();

using Arguments = std::vector<uint64_t>;
using Kernel = void (*)(Running &, const Arguments &);

void wait(Running &running, uint64_t ns) {
    for (int64_t end = now_ns() + int64_t(ns); now_ns() < end && !is_broken();) running.pause();
}

// Read, wait, and write one more.
void add_one(Running &running, const Arguments &a) {
    use(a[0], a[2] * 4);
    use(a[1], a[2] * 4);
    std::vector<uint32_t> read(words(a[1]), words(a[1]) + a[2]);
    wait(running, a[3]);
    for (uint64_t i = 0; i < a[2]; i++) words(a[0])[i] = read[i] + 1;
}

const std::map<std::string, Kernel> KERNELS = {
    {"copy", [](Running &, const Arguments &a) {
         use(a[0], a[2] * 16);
         use(a[1], a[2] * 16);
         memcpy((void *)a[0], (void *)a[1], a[2] * 16);
     }},
    {"fill", [](Running &, const Arguments &a) {
         use(a[0], a[2] * 16);
         for (uint64_t i = 0; i < a[2] * 4; i++) words(a[0])[i] = uint32_t(a[1]);
     }},
    {"spin", add_one},
    {"poll", [](Running &running, const Arguments &a) {
         use(a[1], 4);
         while (*words(a[1]) == uint32_t(a[4]) && !is_broken()) running.pause();
         add_one(running, a);
     }},
    {"stamp", [](Running &running, const Arguments &a) {
         use(a[0], 16);
         auto log = (volatile uint64_t *)a[0];
         log[0] = now_ns();
         wait(running, a[1]);
         log[1] = now_ns();
     }},
    {"gaps", [](Running &running, const Arguments &a) {
         use(a[0], 24 + 16 * a[1]);
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

using Ranges = std::map<uint64_t, size_t>;

// The range that contains all of these bytes, or the end.
Ranges::iterator around(Ranges &ranges, uint64_t address, size_t size) {
    auto after = ranges.upper_bound(address);
    if (after == ranges.begin()) return ranges.end();
    auto range = std::prev(after);
    uint64_t offset = address - range->first;
    return offset < range->second && size <= range->second - offset ? range : ranges.end();
}

bool is_whole(size_t size) { return size && size % GRANULARITY == 0; }

struct Allocation {
    int file;
    size_t size;
};

struct Event {
    std::atomic<int64_t> at{0};
    std::atomic<int> pending{0};
    bool is_recorded = false;
};

struct Function {
    Kernel kernel;
    size_t parameters;
    void *module;
};

class Stream;

// All that this process has made with the driver.  Never destroyed, because threads use it until the process ends.
struct Driver {
    std::mutex mutex;
    std::atomic<pid_t> initialised{0};
    std::atomic<int> broken{SUCCESS};
    bool is_retained = false;
    uint64_t last_handle = 0;
    std::map<uint64_t, Allocation> allocations;
    Ranges reserved, mapped, accessible, allocated, pinned;
    std::map<void *, std::shared_ptr<Stream>> streams;
    std::map<void *, std::shared_ptr<Event>> events;
    std::map<void *, std::string> modules;
    std::map<void *, Function> functions;
};
Driver &driver = *new Driver;
thread_local void *current = nullptr;

bool is_on_device(uint64_t address, size_t size) {
    return around(driver.accessible, address, size) != driver.accessible.end() ||
           around(driver.allocated, address, size) != driver.allocated.end() ||
           around(driver.pinned, address, size) != driver.pinned.end();
}

// Whether kernels can use this memory: that of the device, and any other of the host.
bool is_usable(uint64_t address, size_t size) {
    std::lock_guard guard(driver.mutex);
    if (!size || is_on_device(address, size)) return true;
    for (auto *ranges : {&driver.reserved, &driver.allocated, &driver.pinned})
        if (around(*ranges, address, 1) != ranges->end()) return false;
    // The kernel tells without a crash: it copies a byte of the first and of the last page.
    static const int probe = memfd_create("probe", MFD_CLOEXEC);
    return pwrite(probe, (void *)address, 1, 0) == 1 && pwrite(probe, (void *)(address + size - 1), 1, 0) == 1;
}

struct IllegalAddress {};

bool is_broken() { return driver.broken; }

void use(uint64_t address, size_t size) {
    if (!is_usable(address, size)) throw IllegalAddress();
}

class Stream {
  public:
    static std::shared_ptr<Stream> make() {
        auto made = std::make_shared<Stream>();
        std::thread([made] { made->run(); }).detach();
        return made;
    }
    // Waits while the queue is full.
    void add(std::function<void(Gpu &)> work) {
        std::unique_lock guard(mutex_);
        changed_.wait(guard, [this] { return queue_.size() < MOST_QUEUED; });
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
    // Its thread ends after the work that it has.
    void end() {
        std::lock_guard guard(mutex_);
        has_ended_ = true;
        changed_.notify_all();
    }

  private:
    void run() {
        Gpu gpu;
        for (std::unique_lock guard(mutex_);;) {
            changed_.wait(guard, [this] { return has_ended_ || !queue_.empty(); });
            if (queue_.empty()) return;
            auto work = queue_.front();
            guard.unlock();
            try {
                if (!driver.broken) work(gpu);
            } catch (const IllegalAddress &) {
                driver.broken = ILLEGAL_ADDRESS;
            }
            guard.lock();
            queue_.pop_front();
            changed_.notify_all();
        }
    }
    std::mutex mutex_;
    std::condition_variable changed_;
    std::deque<std::function<void(Gpu &)>> queue_;
    bool has_ended_ = false;
};

// The error of a function that needs only cuInit; a context does not survive a fork.
int initialised() { return driver.initialised == getpid() ? SUCCESS : NOT_INITIALIZED; }

// The error of a function that works in the current context.
int ready() {
    if (int code = initialised()) return code;
    return current ? driver.broken.load() : INVALID_CONTEXT;
}

// The stream with this handle, or null; the default stream has none.
std::shared_ptr<Stream> of(void *stream) {
    std::lock_guard guard(driver.mutex);
    if (!stream && !driver.streams.count(nullptr)) driver.streams[nullptr] = Stream::make();
    auto found = driver.streams.find(stream);
    return found == driver.streams.end() ? nullptr : found->second;
}

int add(void *stream, std::function<void(Gpu &)> work) {
    auto found = of(stream);
    return found ? (found->add(std::move(work)), SUCCESS) : INVALID_HANDLE;
}

int synchronize_all() {
    std::vector<std::shared_ptr<Stream>> streams;
    {
        std::lock_guard guard(driver.mutex);
        for (auto &[handle, stream] : driver.streams) streams.push_back(stream);
    }
    for (auto &stream : streams) stream->synchronize();
    return driver.broken;
}

std::shared_ptr<Event> event_of(void *event) {
    std::lock_guard guard(driver.mutex);
    auto found = driver.events.find(event);
    return found == driver.events.end() ? nullptr : found->second;
}

// Whether these bytes are mappings, from the begin of the first to the end of the last.
bool are_mappings(uint64_t address, size_t size) {
    uint64_t at = address, end = address + size;
    for (auto one = driver.mapped.find(at); at < end && one != driver.mapped.end() && one->first == at; ++one)
        at += one->second;
    return size && at == end;
}

void *map_pages(void *at, size_t size, int protection, int flags) {
    return mmap(at, size, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | flags, -1, 0);
}

// Memory with a page behind it that nothing can use.
int allocate(Ranges &ranges, uint64_t *address, size_t size) {
    if (!size) return INVALID_VALUE;
    if (size > limit()) return OUT_OF_MEMORY;
    size_t pages = (size + PAGE - 1) / PAGE * PAGE;
    void *at = map_pages(nullptr, pages + PAGE, PROT_NONE, 0);
    if (at == MAP_FAILED || mprotect(at, pages, PROT_READ | PROT_WRITE)) return OUT_OF_MEMORY;
    std::lock_guard guard(driver.mutex);
    ranges[*address = uint64_t(at)] = size;
    return SUCCESS;
}

int free_from(Ranges &ranges, uint64_t address) {
    synchronize_all();
    std::lock_guard guard(driver.mutex);
    auto found = ranges.find(address);
    if (found == ranges.end()) return INVALID_VALUE;
    munmap((void *)address, (found->second + PAGE - 1) / PAGE * PAGE + PAGE);
    ranges.erase(found);
    return SUCCESS;
}

// Not memcpy, which crashes where there is no memory.
void copy(uint64_t target, uint64_t source, size_t size) {
    iovec to{(void *)target, size}, from{(void *)source, size};
    if (process_vm_readv(getpid(), &to, 1, &from, 1, 0) != ssize_t(size)) throw IllegalAddress();
}

}  // namespace

struct Location { int type, id; };
struct Properties { int type, handles; Location location; void *win32; uint8_t flags[8]; };
struct Access { Location location; int flags; };

namespace {

int describe(int code, const char **text, int which) {
    static const std::map<int, std::array<const char *, 2>> texts = {
        {INVALID_VALUE, {"CUDA_ERROR_INVALID_VALUE", "invalid argument"}},
        {OUT_OF_MEMORY, {"CUDA_ERROR_OUT_OF_MEMORY", "out of memory"}},
        {NOT_INITIALIZED, {"CUDA_ERROR_NOT_INITIALIZED", "initialization error"}},
        {NO_DEVICE, {"CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"}},
        {INVALID_DEVICE, {"CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"}},
        {INVALID_IMAGE, {"CUDA_ERROR_INVALID_IMAGE", "device kernel image is invalid"}},
        {INVALID_CONTEXT, {"CUDA_ERROR_INVALID_CONTEXT", "invalid device context"}},
        {NO_BINARY_FOR_GPU,
         {"CUDA_ERROR_NO_BINARY_FOR_GPU", "no kernel image is available for execution on the device"}},
        {INVALID_PTX, {"CUDA_ERROR_INVALID_PTX", "a PTX JIT compilation failed"}},
        {INVALID_HANDLE, {"CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"}},
        {NOT_FOUND, {"CUDA_ERROR_NOT_FOUND", "named symbol not found"}},
        {NOT_READY, {"CUDA_ERROR_NOT_READY", "device not ready"}},
        {ILLEGAL_ADDRESS, {"CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"}},
        {NOT_SUPPORTED, {"CUDA_ERROR_NOT_SUPPORTED", "operation not supported"}},
        {802, {"CUDA_ERROR_SYSTEM_NOT_READY", "system not yet initialized"}},
        {803, {"CUDA_ERROR_SYSTEM_DRIVER_MISMATCH",
               "system has unsupported display driver / cuda driver combination"}},
        {804, {"CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE",
               "forward compatibility was attempted on non supported HW"}},
    };
    auto found = texts.find(code);
    *text = found == texts.end() ? nullptr : found->second[which];
    return *text ? SUCCESS : INVALID_VALUE;
}

int check(const Properties &wanted) {
    constexpr uint8_t none[8] = {};
    if (wanted.location.type == 1 && wanted.location.id) return INVALID_DEVICE;
    bool is_ours = wanted.type == 1 && wanted.handles == 1 && wanted.location.type == 1 && !wanted.win32;
    return is_ours && !memcmp(wanted.flags, none, sizeof none) ? SUCCESS : INVALID_VALUE;
}

}  // namespace

extern "C" {

int cuInit(unsigned flags) {
    if (flags) return INVALID_VALUE;
    if (const char *error = getenv("FAKE_GPU_INIT")) return atoi(error);
    pid_t none = 0;
    driver.initialised.compare_exchange_strong(none, getpid());
    return initialised();
}

int cuGetErrorName(int code, const char **name) { return describe(code, name, 0); }
int cuGetErrorString(int code, const char **meaning) { return describe(code, meaning, 1); }

int cuDeviceGet(int *device, int ordinal) {
    if (int code = initialised()) return code;
    return *device = ordinal, ordinal ? INVALID_DEVICE : SUCCESS;
}

int cuDeviceGetAttribute(int *value, int attribute, int device) {
    static const std::map<int, int> values = {
        {20, 0},                                   // compute mode: any number of contexts
        {38, 1 << 16},                             // bytes of the L2 cache
        {75, CAPABILITY / 10}, {76, CAPABILITY % 10},
        {102, 1}, {103, 1},                        // virtual memory, descriptors of it
        {122, 1},                                  // streams wait for values
        {133, 0},                                  // the Multi-Process Service
    };
    if (int code = initialised()) return code;
    if (device) return INVALID_DEVICE;
    auto found = values.find(attribute);
    const char *wanted = getenv(("FAKE_GPU_" + std::to_string(attribute)).c_str());
    if (found == values.end() || (wanted && !*wanted)) return INVALID_VALUE;
    return *value = wanted ? atoi(wanted) : found->second, SUCCESS;
}

int cuDevicePrimaryCtxRetain(void **context, int device) {
    if (int code = initialised()) return code;
    if (device) return INVALID_DEVICE;
    driver.is_retained = true;
    return *context = &driver, SUCCESS;
}

int cuCtxSetCurrent(void *context) {
    if (int code = initialised()) return code;
    if (context && !(context == &driver && driver.is_retained)) return INVALID_CONTEXT;
    return current = context, SUCCESS;
}

int cuCtxSynchronize() {
    if (int code = ready()) return code;
    return synchronize_all();
}

int cuCtxResetPersistingL2Cache() { return ready(); }

// Virtual memory: these functions need no context.

int cuMemGetAllocationGranularity(size_t *size, const Properties *wanted, int option) {
    if (int code = initialised()) return code;
    if (option < 0 || option > 1) return INVALID_VALUE;
    return *size = GRANULARITY, check(*wanted);
}

int cuMemCreate(uint64_t *handle, size_t size, const Properties *wanted, unsigned long long flags) {
    if (int code = initialised()) return code;
    if (!is_whole(size) || flags) return INVALID_VALUE;
    if (int code = check(*wanted)) return code;
    if (size > limit()) return OUT_OF_MEMORY;
    int file = memfd_create("device memory", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (file < 0 || ftruncate(file, off_t(size))) return OUT_OF_MEMORY;
    if (!getenv("FAKE_GPU_SHRINKS")) fcntl(file, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW);
    std::lock_guard guard(driver.mutex);
    driver.allocations[*handle = ++driver.last_handle] = {file, size};
    return SUCCESS;
}

int cuMemExportToShareableHandle(int *descriptor, uint64_t handle, int type, unsigned long long flags) {
    if (int code = initialised()) return code;
    std::lock_guard guard(driver.mutex);
    auto found = driver.allocations.find(handle);
    if (type != 1 || flags || found == driver.allocations.end()) return INVALID_VALUE;
    *descriptor = fcntl(found->second.file, F_DUPFD_CLOEXEC, 0);
    return *descriptor < 0 ? OUT_OF_MEMORY : SUCCESS;
}

int cuMemImportFromShareableHandle(uint64_t *handle, void *descriptor, int type) {
    if (int code = initialised()) return code;
    struct stat facts;
    int file = int(intptr_t(descriptor));
    // Only our memory can be sealed: the descriptor is open, and no other file.
    if (type != 1 || fcntl(file, F_GET_SEALS) < 0 || fstat(file, &facts)) return INVALID_VALUE;
    if (size_t(facts.st_size) > limit()) return OUT_OF_MEMORY;
    std::lock_guard guard(driver.mutex);
    driver.allocations[*handle = ++driver.last_handle] = {fcntl(file, F_DUPFD_CLOEXEC, 0), size_t(facts.st_size)};
    return SUCCESS;
}

// Mappings keep the memory.
int cuMemRelease(uint64_t handle) {
    if (int code = initialised()) return code;
    std::lock_guard guard(driver.mutex);
    auto found = driver.allocations.find(handle);
    if (found == driver.allocations.end()) return INVALID_VALUE;
    close(found->second.file);
    driver.allocations.erase(found);
    return SUCCESS;
}

int cuMemAddressReserve(uint64_t *address, size_t size, size_t alignment, uint64_t, unsigned long long flags) {
    if (int code = initialised()) return code;
    if (!is_whole(size) || flags || (alignment & (alignment - 1))) return INVALID_VALUE;
    size_t unit = std::max(alignment, GRANULARITY);
    void *at = map_pages(nullptr, size + unit, PROT_NONE, 0);
    if (at == MAP_FAILED) return OUT_OF_MEMORY;
    uint64_t begin = (uint64_t(at) + unit - 1) / unit * unit, rest = begin - uint64_t(at);
    if (rest) munmap(at, rest);
    munmap((void *)(begin + size), unit - rest);
    std::lock_guard guard(driver.mutex);
    driver.reserved[*address = begin] = size;
    return SUCCESS;
}

int cuMemMap(uint64_t address, size_t size, size_t offset, uint64_t handle, unsigned long long flags) {
    if (int code = initialised()) return code;
    std::lock_guard guard(driver.mutex);
    auto found = driver.allocations.find(handle);
    if (offset || flags || address % GRANULARITY || !is_whole(size) || found == driver.allocations.end() ||
        size > found->second.size || around(driver.reserved, address, size) == driver.reserved.end())
        return INVALID_VALUE;
    auto next = driver.mapped.lower_bound(address);
    bool is_free = (next == driver.mapped.end() || next->first >= address + size) &&
                   around(driver.mapped, address, 1) == driver.mapped.end();
    if (!is_free) return INVALID_VALUE;
    void *at = mmap((void *)address, size, PROT_NONE, MAP_SHARED | MAP_FIXED, found->second.file, 0);
    if (at == MAP_FAILED) return OUT_OF_MEMORY;
    driver.mapped[address] = size;
    return SUCCESS;
}

int cuMemSetAccess(uint64_t address, size_t size, const Access *wanted, size_t count) {
    if (int code = initialised()) return code;
    synchronize_all();
    std::lock_guard guard(driver.mutex);
    if (!are_mappings(address, size) || count != 1 || wanted->location.type != 1 || wanted->flags != 3)
        return INVALID_VALUE;
    if (wanted->location.id) return INVALID_DEVICE;
    if (mprotect((void *)address, size, PROT_READ | PROT_WRITE)) return INVALID_VALUE;
    driver.accessible[address] = size;
    return SUCCESS;
}

int cuMemUnmap(uint64_t address, size_t size) {
    if (int code = initialised()) return code;
    synchronize_all();
    std::lock_guard guard(driver.mutex);
    if (!are_mappings(address, size)) return INVALID_VALUE;
    if (map_pages((void *)address, size, PROT_NONE, MAP_FIXED) == MAP_FAILED) return OUT_OF_MEMORY;
    for (auto *ranges : {&driver.mapped, &driver.accessible})
        ranges->erase(ranges->lower_bound(address), ranges->lower_bound(address + size));
    return SUCCESS;
}

int cuMemAddressFree(uint64_t address, size_t size) {
    if (int code = initialised()) return code;
    std::lock_guard guard(driver.mutex);
    auto found = driver.reserved.find(address), mapped = driver.mapped.lower_bound(address);
    if (found == driver.reserved.end() || found->second != size ||
        (mapped != driver.mapped.end() && mapped->first < address + size))
        return INVALID_VALUE;
    munmap((void *)address, size);
    driver.reserved.erase(found);
    return SUCCESS;
}

// Other memory.

int cuMemAlloc_v2(uint64_t *address, size_t size) {
    if (int code = ready()) return code;
    return allocate(driver.allocated, address, size);
}

int cuMemFree_v2(uint64_t address) {
    if (int code = ready()) return code;
    return free_from(driver.allocated, address);
}

int cuMemHostAlloc(uint64_t *memory, size_t size, unsigned flags) {
    if (int code = ready()) return code;
    return flags > 7 ? INVALID_VALUE : allocate(driver.pinned, memory, size);
}

int cuMemFreeHost(uint64_t memory) {
    if (int code = ready()) return code;
    return free_from(driver.pinned, memory);
}

// Copies are work of the default stream.  No other stream waits for it, because `cuStreamCreate` makes only such.

int cuMemcpyHtoD_v2(uint64_t target, const char *source, size_t size) {
    if (int code = ready()) return code;
    if (!is_usable(target, size)) return INVALID_VALUE;
    std::string staged(source, size);  // it returns before the bytes are there
    return add(nullptr, [target, staged](Gpu &) { copy(target, uint64_t(staged.data()), staged.size()); });
}

int cuMemcpyDtoH_v2(uint64_t target, uint64_t source, size_t size) {
    if (int code = ready()) return code;
    if (!is_usable(source, size)) return INVALID_VALUE;
    add(nullptr, [=](Gpu &) { copy(target, source, size); });
    return of(nullptr)->synchronize(), driver.broken.load();
}

// It does not wait for the copy.
int cuMemcpyDtoD_v2(uint64_t target, uint64_t source, size_t size) {
    if (int code = ready()) return code;
    if (!is_usable(target, size) || !is_usable(source, size)) return INVALID_VALUE;
    return add(nullptr, [=](Gpu &) { copy(target, source, size); });
}

int cuMemsetD32Async(uint64_t address, uint32_t value, size_t count, void *stream) {
    if (int code = ready()) return code;
    if (address % 4 || !is_usable(address, count * 4)) return INVALID_VALUE;
    return add(stream, [=](Gpu &) {
        for (size_t i = 0; i < count; i++) words(address)[i] = value;
    });
}

// Streams.

int cuStreamCreate(void **stream, unsigned flags) {
    if (int code = ready()) return code;
    if (flags != 1) return INVALID_VALUE;
    auto made = Stream::make();
    std::lock_guard guard(driver.mutex);
    driver.streams[*stream = made.get()] = made;
    return SUCCESS;
}

int cuStreamDestroy_v2(void *stream) {
    if (int code = ready()) return code;
    auto found = of(stream);
    if (!stream || !found) return INVALID_HANDLE;
    std::lock_guard guard(driver.mutex);
    driver.streams.erase(stream);
    return found->end(), SUCCESS;
}

int cuStreamQuery(void *stream) {
    if (int code = ready()) return code;
    auto found = of(stream);
    if (!found) return INVALID_HANDLE;
    return found->is_idle() ? driver.broken.load() : NOT_READY;
}

int cuStreamSynchronize(void *stream) {
    if (int code = ready()) return code;
    auto found = of(stream);
    if (!found) return INVALID_HANDLE;
    return found->synchronize(), driver.broken.load();
}

int cuStreamWaitValue32_v2(void *stream, uint64_t address, uint32_t value, unsigned flags) {
    int is_supported = 0;
    if (int code = ready()) return code;
    if (cuDeviceGetAttribute(&is_supported, 122, 0) || !is_supported) return NOT_SUPPORTED;
    auto read = [address](uint32_t &word) {
        std::lock_guard guard(driver.mutex);
        return is_on_device(address, sizeof word) ? (word = *words(address), true) : false;
    };
    uint32_t now;
    if (flags != 1 || address % 4 || !read(now)) return INVALID_VALUE;
    return add(stream, [read, value](Gpu &) {
        for (uint32_t word; !driver.broken; usleep(50)) {
            if (!read(word)) throw IllegalAddress();
            if (word == value) return;
        }
    });
}

// Kernels.

int cuModuleLoadData(void **module, const char *ptx) {
    if (int code = ready()) return code;
    const char *target = strstr(ptx, ".target sm_");
    if (!strstr(ptx, ".version ")) return INVALID_IMAGE;
    if (!target || !strstr(ptx, ".address_size 64")) return INVALID_PTX;
    if (atoi(target + strlen(".target sm_")) > CAPABILITY) return NO_BINARY_FOR_GPU;
    std::lock_guard guard(driver.mutex);
    driver.modules[*module = new char] = ptx;
    return SUCCESS;
}

int cuModuleUnload(void *module) {
    if (int code = ready()) return code;
    synchronize_all();
    std::lock_guard guard(driver.mutex);
    if (!driver.modules.erase(module)) return INVALID_HANDLE;
    std::erase_if(driver.functions, [module](const auto &one) { return one.second.module == module; });
    return SUCCESS;
}

int cuModuleGetFunction(void **function, void *module, const char *name) {
    if (int code = ready()) return code;
    std::lock_guard guard(driver.mutex);
    auto found = driver.modules.find(module);
    if (found == driver.modules.end()) return INVALID_HANDLE;
    auto kernel = KERNELS.find(name);
    size_t entry = found->second.find(std::string(".entry ") + name + "(");
    if (kernel == KERNELS.end() || entry == std::string::npos) return NOT_FOUND;
    // How many parameters it has: commas in its list, plus one.
    size_t count = 1;
    for (size_t at = entry; found->second[at] != ')'; at++) count += found->second[at] == ',';
    driver.functions[*function = new char] = {kernel->second, count, module};
    return SUCCESS;
}

int cuLaunchKernel(void *function, unsigned x, unsigned y, unsigned z, unsigned width, unsigned height, unsigned depth,
                   unsigned shared, void *stream, uint64_t **parameters, void **extra) {
    if (int code = ready()) return code;
    Function it;
    {
        std::lock_guard guard(driver.mutex);
        auto found = driver.functions.find(function);
        if (found == driver.functions.end()) return INVALID_HANDLE;
        it = found->second;
    }
    bool is_grid = x && y && z && x <= INT_MAX && y <= 65535 && z <= 65535;
    bool is_block = width && height && depth && width <= 1024 && height <= 1024 && depth <= 64 &&
                    uint64_t(width) * height * depth <= 1024;
    if (!is_grid || !is_block || shared > 48 << 10 || !parameters || extra) return INVALID_VALUE;
    Arguments arguments;
    for (size_t i = 0; i < it.parameters; i++) arguments.push_back(*parameters[i]);
    return add(stream, [it, arguments](Gpu &gpu) {
        Running running(gpu);
        it.kernel(running, arguments);
    });
}

// Events.

int cuEventCreate(void **event, unsigned flags) {
    if (int code = ready()) return code;
    if (flags) return INVALID_VALUE;
    auto made = std::make_shared<Event>();
    std::lock_guard guard(driver.mutex);
    driver.events[*event = made.get()] = made;
    return SUCCESS;
}

int cuEventDestroy_v2(void *event) {
    if (int code = ready()) return code;
    std::lock_guard guard(driver.mutex);
    return driver.events.erase(event) ? SUCCESS : INVALID_HANDLE;
}

int cuEventRecord(void *event, void *stream) {
    if (int code = ready()) return code;
    auto it = event_of(event);
    if (!it) return INVALID_HANDLE;
    it->is_recorded = true;
    it->pending++;
    return add(stream, [it](Gpu &gpu) {
        gpu.take();
        it->at = now_ns();
        gpu.leave();
        it->pending--;
    });
}

int cuEventElapsedTime(float *milliseconds, void *start, void *end) {
    if (int code = ready()) return code;
    auto from = event_of(start), to = event_of(end);
    if (!from || !to || !from->is_recorded || !to->is_recorded) return INVALID_HANDLE;
    if (from->pending || to->pending) return NOT_READY;
    return *milliseconds = float(double(to->at - from->at) / 1e6), SUCCESS;
}

}  // extern "C"
