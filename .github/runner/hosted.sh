#!/bin/bash
# Set up a GitHub-hosted runner (ubuntu-24.04) to judge the CPU board.  The bundle contains this script.
#
# It puts a virtual environment with a CPU build of torch first in PATH for the following steps.
set -euo pipefail

HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
TORCH=${TORCH:-torch==2.13.0}
TORCH_INDEX=${TORCH_INDEX:-https://download.pytorch.org/whl/cpu}
venv=$RUNNER_TEMP/judge

if ! command -v bwrap > /dev/null; then
    sudo apt-get update --quiet=2 # The image's lists name versions that the mirror no longer has.
    sudo apt-get install --quiet=2 --yes --no-install-recommends bubblewrap
fi
# Ubuntu denies user namespaces to programs without an AppArmor profile; this machine exists for one job only.
if [[ -e /proc/sys/kernel/apparmor_restrict_unprivileged_userns ]]; then
    sudo sysctl --quiet --write kernel.apparmor_restrict_unprivileged_userns=0
fi

python3 -m venv "$venv"
"$venv/bin/pip" install --quiet --require-hashes --no-deps --only-binary :all: --requirement "$HERE/judge.lock"
"$venv/bin/pip" install --quiet --only-binary :all: --index-url "$TORCH_INDEX" "$TORCH"
echo "$venv/bin" >> "$GITHUB_PATH"
# Nothing else runs on this machine, but its host may never be idle: judge beside its neighbours' work, and say so.
echo "PULLRANK_OTHER_WORK=avoid" >> "$GITHUB_ENV"
