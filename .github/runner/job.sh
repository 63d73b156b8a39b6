#!/bin/bash
# One job, from a fresh runner to a clean machine.  pullrank-worker.service calls it three times:
#
#   job.sh prepare    as root           create CUDA's device nodes, and copy the runner into an empty home
#   job.sh run        as the worker     run one job; systemd passes the registration as credential `jitconfig`
#   job.sh clean      as root           kill all processes of the worker's user, and remove all of its files
#
# A job can write to its own copy of the runner and to its home; both are deleted after it.
set -euo pipefail

root=${PULLRANK_ROOT:-} # for tests
user=${PULLRANK_WORKER:-pullrank-runner}
home=$root/var/lib/pullrank-runner
runner=$root/opt/pullrank/runner

prepare() {
    make_gpu_nodes
    clean_home
    mkdir -p "$home/job"
    # One version, even if an update switches the link meanwhile.
    runner=$(readlink --canonicalize "$runner")
    cp -a --reflink=auto "$runner/." "$home/job/"
    chown -R "$user:$user" "$home"
    chmod 0700 "$home"
}

# Without a display, the first CUDA program creates the nodes through nvidia-modprobe.  A job's programs cannot:
# they gain no rights from setuid programs.
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
    nvidia-modprobe "$@" || echo "job.sh: nvidia-modprobe $* failed: the judge will report what is missing" >&2
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
    # Last: the loop waits for this file to disappear.
    rm -f "$root/run/pullrank/jitconfig"
}

# systemd has killed all processes in the unit's cgroup; this kills any that escaped from it.
end_processes() {
    local round
    for round in 1 2 3 4 5; do
        pkill -KILL -u "$user" || true
        # Zombies (Z) have ended.
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
