"""Stand-ins for `ncu` and `rocprofv3`: real programs with the documented options and output files.

Like the real ones, they start a command and wait for it; before, they close every descriptor that they don't
know.  Their counters are made up.  Each is alone in a folder that the sandbox can see, so not below /tmp.
"""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

_NCU = r"""#!/usr/bin/env python3
import argparse, pathlib, re, subprocess, sys

parser = argparse.ArgumentParser(allow_abbrev=False)
parser.add_argument("--kernel-name", default="regex:")
parser.add_argument("--launch-skip", type=int, default=0)
parser.add_argument("--launch-count", type=int)
for name in ("--set", "--profile-from-start", "--target-processes", "--clock-control", "--export"):
    parser.add_argument(name)
parser.add_argument("--import", dest="report")
parser.add_argument("--print-units", choices=["auto", "base"])
parser.add_argument("--page", choices=["raw", "details"])
parser.add_argument("--csv", action="store_true")
parser.add_argument("--force-overwrite", action="store_true")
parser.add_argument("command", nargs=argparse.REMAINDER)
given = parser.parse_args()

if given.report:
    assert given.page == "raw" and given.csv and given.print_units == "base"
    sys.stdout.write(pathlib.Path(given.report).read_text().removeprefix("NVR\n"))
    sys.exit(0)
assert (given.set, given.profile_from_start, given.clock_control) == ("full", "off", "none")
command = subprocess.Popen(given.command, close_fds=True)
print(f"==PROF== Connected to process {command.pid} ({given.command[0]})", flush=True)
status = command.wait()
SAYS
print(f"==PROF== Disconnected from process {command.pid}")
if TABLE is not None:
    lines = TABLE.splitlines(keepends=True)
    launches = [line for line in lines if re.match(r'"\d', line)]
    found = [line for line in launches if re.search(given.kernel_name.removeprefix("regex:"), line)]
    left = found[given.launch_skip :][: given.launch_count]
    table = "".join(line for line in lines if line not in launches or line in left)
    pathlib.Path(given.export + ".ncu-rep").write_text("NVR\n" + table)
    print(f"==PROF== Report: {given.export}.ncu-rep")
sys.exit(status)
"""

_ROCPROF = r"""#!/usr/bin/env python3
import os, pathlib, subprocess, sys

given, command = sys.argv[1 : sys.argv.index("--")], sys.argv[sys.argv.index("--") + 1 :]
flags = ["--kernel-trace", "--marker-trace", "--selected-regions", "--output-format", "csv"]
assert given[:5] == flags and given[5] == "--output-directory" and given[7] == "--output-file", given
status = subprocess.call(command, close_fds=True)
SAYS
if TABLE is not None:
    (pathlib.Path(given[6]) / f"{given[8]}_kernel_trace.csv").write_text(TABLE)
sys.exit(status)
"""

NCU_TABLE = """==PROF== a message before it
"ID","Process ID","Process Name","Host Name","Kernel Name","Context","Stream","Block Size","Grid Size","Device","CC",\
"gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed","gpu__time_duration.sum",\
"launch__occupancy_limit_blocks","launch__occupancy_limit_registers","launch__occupancy_limit_shared_mem",\
"launch__occupancy_limit_warps","launch__registers_per_thread",\
"sm__throughput.avg.pct_of_peak_sustained_elapsed","sm__warps_active.avg.pct_of_peak_sustained_active"
"","","","","","","","","","","","%","us","block","block","block","block","register/thread","%","%"
"0","42","python3","127.0.0.1","void gemm<float, 128>(float *, float *)","1","7","(256, 1, 1)","(1,024, 1, 1)","0","9.0",\
"41.50","1,205.00","32","2","3","8","168","83.25","24.10"
"1","42","python3","127.0.0.1","elementwise(float *)","1","7","(128, 1, 1)","(80, 1, 1)","0","9.0",\
"91.00","10.00","32","16","32","16","24","12.00","88.00"
"2","42","python3","127.0.0.1","elementwise(float *)","1","7","(128, 1, 1)","(80, 1, 1)","0","9.0",\
"81.00","30.00","32","16","32","16","24","n/a","80.00"
"""

ROCPROF_TABLE = """"Kind","Agent_Id","Queue_Id","Stream_Id","Thread_Id","Dispatch_Id","Kernel_Id","Kernel_Name","Correlation_Id",\
"Start_Timestamp","End_Timestamp","LDS_Block_Size","Scratch_Size","VGPR_Count","Accum_VGPR_Count","SGPR_Count",\
"Workgroup_Size_X","Workgroup_Size_Y","Workgroup_Size_Z","Grid_Size_X","Grid_Size_Y","Grid_Size_Z"
"KERNEL_DISPATCH","Agent 7",1,0,70,1,49,"add(float*, float const*, int)",1,1551401624448706,1551401624459226,0,0,8,0,16,64,1,1,1024,1,1
"KERNEL_DISPATCH","Agent 7",1,0,70,2,50,"gemm(float*, float const*)",2,1551401624500000,1551401624600000,512,0,128,0,32,64,1,1,1024,1,1
"""

REFUSED = (
    "==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access NVIDIA GPU Performance Counters on the "
    "target device 0. For instructions on enabling permissions and to get more information see "
    "https://developer.nvidia.com/ERR_NVGPUCTRPERM"
)


def put(folder: Path, name: str, table: str | None = None, says: str = "", status: int | None = None) -> None:
    """Put one of the two into a folder: it writes a table (None: nothing), prints a line, and exits with a status."""
    program = {"ncu": _NCU, "rocprofv3": _ROCPROF}[name]
    said = f"print({says!r}, file=sys.stderr)\n" + ("" if status is None else f"status = {status}\n")
    (folder / name).write_text(program.replace("SAYS\n", said if says else "").replace("TABLE", repr(table)))
    (folder / name).chmod(0o755)


@contextlib.contextmanager
def installed(name: str, table: str | None = None, says: str = "", status: int | None = None) -> Iterator[Path]:
    """A folder with one of the two, made by `put`."""
    folder = Path(tempfile.mkdtemp(prefix="pullrank-test-", dir="/var/tmp"))
    try:
        folder.chmod(0o755)
        put(folder, name, table, says, status)
        yield folder
    finally:
        shutil.rmtree(folder)
