"""The driver without a GPU refuses what NVIDIA's driver refuses, so that no test passes with a call that a GPU rejects."""

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from ctypes import addressof, byref, c_float, c_int, c_size_t, c_uint, c_ulonglong, c_void_p

import pytest

from benchmarks.border.kernels import PROBES
from harness.inside.cuda_driver import Driver, DriverError, _Access, _Location

UNIT = 2 << 20
MOST_QUEUED = 1024
NO_FLAGS = c_ulonglong(0)


@pytest.fixture
def driver(library: str) -> Driver:
    return Driver(library)


def refuses(driver: Driver, error: str, function: str, *arguments: object) -> None:
    with pytest.raises(DriverError, match=rf"^{function}: CUDA_ERROR_{error} \("):
        driver.call(function, *arguments)


def reserved(driver: Driver, units: int = 2) -> int:
    address = c_ulonglong()
    driver.call("cuMemAddressReserve", byref(address), c_size_t(units * UNIT), c_size_t(0), NO_FLAGS, NO_FLAGS)
    return address.value


def created(driver: Driver, units: int = 1) -> c_ulonglong:
    handle = c_ulonglong()
    driver.call("cuMemCreate", byref(handle), c_size_t(units * UNIT), byref(driver._properties()), NO_FLAGS)
    return handle


def mapped(driver: Driver, address: int, handle: c_ulonglong, units: int = 1, offset: int = 0) -> tuple[object, ...]:
    """The arguments of cuMemMap."""
    return c_ulonglong(address), c_size_t(units * UNIT), c_size_t(offset), handle, NO_FLAGS


def access(location: int = 1, device: int = 0, flags: int = 3) -> object:
    return byref(_Access(_Location(location, device), flags))


# ---------------------------------------------------------------------- contexts


def test_a_thread_has_no_context_until_it_makes_one_current(driver: Driver) -> None:
    found: list[str] = []

    def use() -> None:
        for prepare in (lambda: None, driver.make_current, lambda: driver.call("cuCtxSetCurrent", None)):
            prepare()
            try:
                driver.synchronize()
                found.append("")
            except DriverError as error:
                found.append(str(error))

    thread = threading.Thread(target=use)
    thread.start()
    thread.join()
    assert found == ["cuCtxSynchronize: CUDA_ERROR_INVALID_CONTEXT (invalid device context)", "", found[0]]


def test_a_pointer_that_is_no_context_is_refused(driver: Driver) -> None:
    refuses(driver, "INVALID_CONTEXT", "cuCtxSetCurrent", c_void_p(1))


def errors_of(library: str, code: str) -> list[str]:
    """What a process says of its errors; `code` calls `say` with a function."""
    prelude = """
import os, sys
from functools import partial
from benchmarks.border.kernels import PROBES
from harness.inside.cuda_driver import Driver, DriverError
def say(function, *arguments):
    try:
        function(*arguments)
        print("none", flush=True)
    except DriverError as error:
        print(error, flush=True)
driver = Driver(sys.argv[1])
"""
    command = [sys.executable, "-c", prelude + code, library]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()


def test_no_context_survives_a_fork(library: str) -> None:
    code = """
if not os.fork():
    say(driver.synchronize)
    say(Driver, sys.argv[1])
    os._exit(0)
os.wait()
say(driver.synchronize)
"""
    assert errors_of(library, code) == [
        "cuCtxSynchronize: CUDA_ERROR_NOT_INITIALIZED (initialization error)",
        "cuInit: CUDA_ERROR_NOT_INITIALIZED (initialization error)",
        "none",
    ]


def test_a_kernel_that_uses_what_is_not_mapped_breaks_its_context_for_good(library: str) -> None:
    code = """
kernel, stream, event = driver.kernel(driver.load(PROBES), "spin"), driver.stream(), driver.event()
gone = driver.allocate(4)
driver.free(gone)
launch = partial(driver.launch, kernel, stream, (gone.address, gone.address, 1, 0))
say(launch)
say(driver.synchronize)
say(driver.wait, stream)
say(launch)
say(driver.allocate, 16)
say(driver.stream)
say(driver.call, "cuEventRecord", event, stream)
"""
    first, *others = errors_of(library, code)
    assert first == "none"
    assert ["CUDA_ERROR_ILLEGAL_ADDRESS" in error for error in others] == [True] * 6


# ---------------------------------------------------------------------- virtual memory


def test_memory_is_created_in_whole_units_on_a_device(driver: Driver) -> None:
    handle, properties = c_ulonglong(), driver._properties()
    for size in (0, 1, UNIT + 4096):
        refuses(driver, "INVALID_VALUE", "cuMemCreate", byref(handle), c_size_t(size), byref(properties), NO_FLAGS)
    refuses(driver, "INVALID_VALUE", "cuMemCreate", byref(handle), c_size_t(UNIT), byref(properties), c_ulonglong(1))
    properties.location.id = 1
    refuses(driver, "INVALID_DEVICE", "cuMemCreate", byref(handle), c_size_t(UNIT), byref(properties), NO_FLAGS)


def test_memory_is_exported_as_a_descriptor_only(driver: Driver) -> None:
    handle, found = created(driver), c_int()
    refuses(driver, "INVALID_VALUE", "cuMemExportToShareableHandle", byref(found), handle, 2, NO_FLAGS)
    refuses(driver, "INVALID_VALUE", "cuMemExportToShareableHandle", byref(found), handle, 1, c_ulonglong(1))


def test_only_open_descriptors_of_memory_are_imported(driver: Driver) -> None:
    _, descriptor = driver.share(UNIT)
    os.close(descriptor)
    error = r"^cuMemImportFromShareableHandle: CUDA_ERROR_INVALID_VALUE"
    with pytest.raises(DriverError, match=error):
        driver.open(descriptor, UNIT)
    with open(os.devnull) as other, pytest.raises(DriverError, match=error):
        driver.open(other.fileno(), UNIT)


def test_a_released_handle_is_unknown_and_its_mapping_still_works(driver: Driver) -> None:
    address, handle = reserved(driver), created(driver)
    driver.call("cuMemMap", *mapped(driver, address, handle))
    driver.call("cuMemRelease", handle)
    driver.call("cuMemSetAccess", c_ulonglong(address), c_size_t(UNIT), access(), c_size_t(1))
    driver.write(address, b"kept")
    assert driver.read(address, 4) == b"kept"
    refuses(driver, "INVALID_VALUE", "cuMemRelease", handle)
    refuses(driver, "INVALID_VALUE", "cuMemMap", *mapped(driver, address + UNIT, handle))


def test_memory_is_mapped_whole_and_once_into_a_reservation(driver: Driver) -> None:
    address, handle, outside = reserved(driver), created(driver), c_size_t(UNIT // 2)
    refuses(driver, "INVALID_VALUE", "cuMemMap", *mapped(driver, address, handle, offset=UNIT))
    refuses(driver, "INVALID_VALUE", "cuMemMap", *mapped(driver, address, handle, units=2))
    refuses(driver, "INVALID_VALUE", "cuMemMap", *mapped(driver, address + 4096, handle))
    refuses(driver, "INVALID_VALUE", "cuMemMap", *mapped(driver, address + 2 * UNIT, handle))
    refuses(driver, "INVALID_VALUE", "cuMemMap", c_ulonglong(address), outside, c_size_t(0), handle, NO_FLAGS)
    driver.call("cuMemMap", *mapped(driver, address, handle))
    refuses(driver, "INVALID_VALUE", "cuMemMap", *mapped(driver, address, handle))


def test_access_is_given_to_whole_mappings_and_to_this_device(driver: Driver) -> None:
    address, handle = reserved(driver), created(driver, 2)
    place, both, one = c_ulonglong(address), c_size_t(2 * UNIT), c_size_t(1)
    refuses(driver, "INVALID_VALUE", "cuMemSetAccess", place, both, access(), one)
    driver.call("cuMemMap", *mapped(driver, address, handle, units=2))
    for size, wanted, count in (
        (UNIT, access(), 1),
        (4096, access(), 1),
        (2 * UNIT, access(), 0),
        (2 * UNIT, access(location=0), 1),
        (2 * UNIT, access(flags=2), 1),
    ):
        refuses(driver, "INVALID_VALUE", "cuMemSetAccess", place, c_size_t(size), wanted, c_size_t(count))
    refuses(driver, "INVALID_DEVICE", "cuMemSetAccess", place, both, access(device=1), one)


def test_memory_without_access_is_neither_copied_nor_waited_for(driver: Driver) -> None:
    address = reserved(driver)
    driver.call("cuMemMap", *mapped(driver, address, created(driver)))
    with pytest.raises(DriverError, match="cuMemcpyDtoH_v2: CUDA_ERROR_INVALID_VALUE"):
        driver.read(address, 4)
    with pytest.raises(DriverError, match="cuStreamWaitValue32_v2: CUDA_ERROR_INVALID_VALUE"):
        driver.wait_for_value(driver.stream().value, address, 1)


def test_a_mapping_is_unmapped_whole_and_before_its_addresses_are_freed(driver: Driver) -> None:
    mapping, descriptor = driver.share(2 * UNIT)
    os.close(descriptor)
    address, size = c_ulonglong(mapping.address), c_size_t(mapping.size)
    refuses(driver, "INVALID_VALUE", "cuMemUnmap", address, c_size_t(UNIT))
    refuses(driver, "INVALID_VALUE", "cuMemAddressFree", address, size)
    driver.call("cuMemUnmap", address, size)
    refuses(driver, "INVALID_VALUE", "cuMemUnmap", address, size)
    refuses(driver, "INVALID_VALUE", "cuMemAddressFree", address, c_size_t(UNIT))
    driver.call("cuMemAddressFree", address, size)
    refuses(driver, "INVALID_VALUE", "cuMemAddressFree", address, size)


def test_other_memory_is_freed_once_and_used_within_its_bounds(driver: Driver) -> None:
    memory = driver.allocate(100)
    with pytest.raises(DriverError, match="cuMemcpyDtoH_v2: CUDA_ERROR_INVALID_VALUE"):
        driver.read(memory.address, 101)
    driver.free(memory)
    refuses(driver, "INVALID_VALUE", "cuMemFree_v2", c_ulonglong(memory.address))
    refuses(driver, "INVALID_VALUE", "cuMemAlloc_v2", byref(c_ulonglong()), c_size_t(0))


# ---------------------------------------------------------------------- streams, kernels, events


@pytest.fixture
def gate(driver: Driver) -> Iterator[tuple[c_void_p, Callable[[], None]]]:
    """A stream whose work waits, and a function that starts it."""
    word, stream = driver.allocate_word(), driver.stream()
    driver.wait_for_value(stream.value, addressof(word), 1)

    def start() -> None:
        word.value = 1

    yield stream, start
    start()
    driver.wait(stream)


def test_a_launch_waits_while_the_queue_is_full(driver: Driver, gate: tuple[c_void_p, Callable[[], None]]) -> None:
    stream, start = gate
    kernel, place = driver.kernel(driver.load(PROBES), "spin"), driver.allocate(4).address
    launched = []

    def launch() -> None:
        driver.make_current()
        for number in range(MOST_QUEUED):  # the stream's wait takes one place
            driver.launch(kernel, stream, (place, place, 1, 0))
            launched.append(number)

    thread = threading.Thread(target=launch)
    thread.start()
    give_up = time.monotonic() + 20
    while len(launched) < MOST_QUEUED - 1 and time.monotonic() < give_up:
        time.sleep(0.01)
    time.sleep(0.1)
    assert len(launched) == MOST_QUEUED - 1
    start()
    thread.join()
    assert len(launched) == MOST_QUEUED


def test_a_copy_is_work_of_the_default_stream_for_which_no_other_waits(
    driver: Driver, gate: tuple[c_void_p, Callable[[], None]]
) -> None:
    stream, start = gate
    memory = driver.allocate(4)
    driver.call("cuMemsetD32Async", c_ulonglong(memory.address), c_uint(7), c_size_t(1), stream)
    driver.write(memory.address, b"1234")
    assert driver.read(memory.address, 4) == b"1234"
    start()
    driver.wait(stream)
    assert driver.read(memory.address, 4) == b"\7\0\0\0"


@pytest.mark.parametrize(
    ("function", "error"),
    [
        ("cuStreamQuery", "INVALID_HANDLE"),
        ("cuStreamSynchronize", "INVALID_HANDLE"),
        ("cuStreamDestroy_v2", "INVALID_HANDLE"),
        ("cuEventDestroy_v2", "INVALID_HANDLE"),
        ("cuModuleUnload", "INVALID_HANDLE"),
        ("cuMemFreeHost", "INVALID_VALUE"),
    ],
)
def test_unknown_handles_are_refused(driver: Driver, function: str, error: str) -> None:
    refuses(driver, error, function, c_void_p(1 << 20))


def test_a_stream_and_its_module_are_unknown_once_they_are_gone(driver: Driver) -> None:
    stream, module, event = driver.stream(), driver.load(PROBES), driver.event()
    kernel, place = driver.kernel(module, "spin"), driver.allocate(4).address
    driver.call("cuStreamDestroy_v2", stream)
    refuses(driver, "INVALID_HANDLE", "cuEventRecord", event, stream)
    driver.call("cuModuleUnload", module)
    with pytest.raises(DriverError, match="cuLaunchKernel: CUDA_ERROR_INVALID_HANDLE"):
        driver.launch(kernel, driver.stream(), (place, place, 1, 0))


@pytest.mark.parametrize("size", [{"blocks": 0}, {"threads": 0}, {"threads": 1025}, {"blocks": 1 << 31}])
def test_a_kernel_that_does_not_fit_is_refused(driver: Driver, size: dict[str, int]) -> None:
    kernel, place = driver.kernel(driver.load(PROBES), "spin"), driver.allocate(4).address
    with pytest.raises(DriverError, match="cuLaunchKernel: CUDA_ERROR_INVALID_VALUE"):
        driver.launch(kernel, driver.stream(), (place, place, 1, 0), **size)


@pytest.mark.parametrize(
    ("image", "error"),
    [
        (".entry spin(.param .u64 a)", "INVALID_IMAGE"),
        (PROBES.replace(".address_size 64", ""), "INVALID_PTX"),
        (PROBES.replace("sm_70", "sm_100"), "NO_BINARY_FOR_GPU"),
    ],
)
def test_an_image_that_is_not_for_this_gpu_is_refused(driver: Driver, image: str, error: str) -> None:
    with pytest.raises(DriverError, match=f"cuModuleLoadData: CUDA_ERROR_{error}"):
        driver.load(image)


def test_a_time_needs_two_events_that_are_over(driver: Driver, gate: tuple[c_void_p, Callable[[], None]]) -> None:
    stream, start = gate
    begin, end = driver.event(), driver.event()
    driver.call("cuEventRecord", begin, stream)
    refuses(driver, "INVALID_HANDLE", "cuEventElapsedTime", byref(c_float()), begin, end)
    driver.call("cuEventRecord", end, stream)
    refuses(driver, "NOT_READY", "cuEventElapsedTime", byref(c_float()), begin, end)
    start()
    driver.wait(stream)
    assert driver.elapsed_us(begin, end) >= 0
