#!/bin/bash
# One job, from a fresh runner to a clean machine.  pullrank-worker.service calls it three times:
#
#   job.sh prepare    as root           CUDA's device nodes, and a new copy of the runner in an empty home
#   job.sh run        as the worker     one job; the registration comes as systemd's credential `jitconfig`
#   job.sh clean      as root           end all processes of the worker's user, and remove all files of theirs
#
# A job can write to its own copy of the runner and to its home, and both end with it.
set -euo pipefail

root=${PULLRANK_ROOT:-} # for tests
user=${PULLRANK_WORKER:-pullrank-runner}
home=$root/var/lib/pullrank-runner
runner=$root/opt/pullrank/runner

prepare() {
    make_gpu_nodes
    clean_home
    mkdir -p "$home/job"
    cp -a --reflink=auto "$runner/." "$home/job/"
    chown -R "$user:$user" "$home"
    chmod 0700 "$home"
}

# Without a display, the nodes are there once the first CUDA program has called nvidia-modprobe.  A job's could not: it
# gains no rights by programs that are root's.
make_gpu_nodes() {
    command -v nvidia-modprobe > /dev/null || return 0
    local information
    make_node -c 255  # /dev/nvidiactl; loads the driver, too
    for information in "$root"/proc/driver/nvidia/gpus/*/information; do
        [[ -e $information ]] || continue
        make_node -c "$(sed -n 's/^Device Minor:[[:space:]]*//p' "$information")"
    done
    make_node -c 0 -u  # /dev/nvidia-uvm, and nothing else
}

make_node() {
    nvidia-modprobe "$@" || echo "job.sh: nvidia-modprobe $* failed: the judge will say what is missing" >&2
}

run() {
    local jit
    jit=$(< "$CREDENTIALS_DIRECTORY/jitconfig")
    cd "$home/job"
    export HOME=$home
    export PATH=$root/opt/pullrank/venv/bin:/usr/local/cuda/bin:/usr/local/bin:/usr/bin:/bin
    export ACTIONS_RUNNER_HOOK_JOB_STARTED=$root/opt/pullrank/bin/gate.sh
    exec ./run.sh --jitconfig "$jit"
}

clean() {
    end_processes
    clean_home
    local folder
    for folder in "$root"/tmp "$root"/var/tmp "$root"/dev/shm; do
        [[ ! -d $folder ]] || find "$folder" -xdev -mindepth 1 -user "$user" -delete || true
    done
    # Last, for this is what the loop waits for.
    rm -f "$root/run/pullrank/jitconfig"
}

# systemd has ended all in the unit's cgroup by now; this is for what got out of it.
end_processes() {
    local round
    for round in 1 2 3 4 5; do
        pkill -KILL -u "$user" || true
        # Those that only wait to be reaped (Z) have ended.
        pgrep --runstates D,I,R,S,T,t -u "$user" > /dev/null || return 0
        sleep "0.$round"
    done
    echo "job.sh: some processes of $user do not end" >&2
    return 1
}

clean_home() {
    mkdir -p "$home"
    find "$home" -xdev -mindepth 1 -delete
}

case ${1:-} in
    prepare | run | clean) "$1" ;;
    *)
        echo "usage: job.sh prepare | run | clean" >&2
        exit 2
        ;;
esac
