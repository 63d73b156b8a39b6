#!/bin/bash
# Make one of GitHub's own machines (ubuntu-24.04) a judge for the CPU board.  It comes with the bundle.
#
# A virtual environment with the CPU's torch goes first in PATH for the steps that follow.
set -euo pipefail

HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
TORCH=${TORCH:-torch==2.13.0}
TORCH_INDEX=${TORCH_INDEX:-https://download.pytorch.org/whl/cpu}
venv=$RUNNER_TEMP/judge

command -v bwrap > /dev/null || sudo apt-get install --quiet=2 --yes --no-install-recommends bubblewrap
# Ubuntu keeps user namespaces from programs without a profile of AppArmor's; this machine lives for one job.
if [[ -e /proc/sys/kernel/apparmor_restrict_unprivileged_userns ]]; then
    sudo sysctl --quiet --write kernel.apparmor_restrict_unprivileged_userns=0
fi

python3 -m venv "$venv"
"$venv/bin/pip" install --quiet --require-hashes --no-deps --only-binary :all: --requirement "$HERE/judge.lock"
"$venv/bin/pip" install --quiet --only-binary :all: --index-url "$TORCH_INDEX" "$TORCH"
echo "$venv/bin" >> "$GITHUB_PATH"
