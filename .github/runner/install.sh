#!/bin/bash
# Set up a bare Debian (12+) or Ubuntu (24.04+) machine as a judge that takes one job at a time, each on a new runner.
#
#   /opt/pullrank/         bin/ (gate, loop, job)   runner-<version>/   venv/ (Python with torch)   owned by root
#   /etc/pullrank/         registrar.conf   egress.nft   credential/ (owned by pullrank-registrar)
#   /var/lib/pullrank-runner/   the worker's home, emptied before and after each job
#   systemd                pullrank-registrar.service ─▶ pullrank-worker.path ─▶ pullrank-worker.service
#
# Or as half of that: `--role judge` has no credential, and `--role registrar`, on another machine, runs no jobs.
#
# It can run again at any time: it changes only what differs, and keeps an existing credential and torch.  See README.md in this folder.
set -euo pipefail

HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
PACKAGES=(bubblewrap ca-certificates curl g++ jq nftables ninja-build openssl procps python3-venv tar util-linux)
JUDGE_UNITS=(pullrank-worker.path pullrank-worker.service pullrank-update.timer pullrank-update.service)
REGISTRAR_UNITS=(pullrank-registrar.service)
WORKER=pullrank-runner
REGISTRAR=pullrank-registrar
RECEIVER=pullrank-receiver # on a judge: the registrar logs in as this user
AUTHORIZED_KEYS=var/lib/pullrank-receiver/.ssh/authorized_keys

usage() {
    cat << 'END'
usage: install.sh --repository OWNER/NAME --repository-id NUMBER --labels LABEL[,LABEL]
                  CREDENTIAL  [OPTIONS]
       install.sh --role judge --repository-id NUMBER --registrar-key FILE  [OPTIONS]
       install.sh --role registrar --repository OWNER/NAME --labels LABEL[,LABEL]
                  --judge [USER@]HOST[:PORT] --judge-key FILE --judge-host-key FILE  CREDENTIAL  [OPTIONS]
       install.sh --uninstall

CREDENTIAL registers runners; optional on later runs:
  --app-id N --installation-id N --key-file FILE      a GitHub App: Self-hosted runners, read and write, of the
                             organisation (without --group-id: Administration, read and write, of this repository)
  --token-file FILE          a fine-grained token with the same permission

ROLES:
  --role both                one machine judges, and registers its runners. The default
  --role judge               this machine judges, and has no credential
  --registrar-key FILE       the registrar's public SSH key; it can deliver one-job registrations, and nothing else
  --role registrar           this machine registers runners for other machines; run it again for each judge
  --judge [USER@]HOST[:PORT] a judge. USER is pullrank-receiver
  --judge-key FILE           the private SSH key, without a passphrase; optional on later runs
  --judge-host-key FILE      the judge's public host key, such as its /etc/ssh/ssh_host_ed25519_key.pub

OPTIONS
  --group-id N               the organisation's runner group. Default: the repository's own runners
  --branch NAME              the default branch. Default: main
  --runner-version X.Y.Z --runner-sha256 HEX
                             pin this version of GitHub's runner: it is never updated. Default: the newest release that
                             has been out for three days, updated daily
  --runner-archive FILE      the pinned version's .tar.gz, instead of a download
  --python PATH              Python 3.11 or later, preferably with torch. Default: python3
  --torch SPEC               package to install if torch is missing. Default: torch
  --torch-requirements FILE  the same with all that it needs, pinned by hashes: a requirements file
  --allow ADDRESS            also let jobs reach this address, such as a proxy (repeatable)
  --api-url URL              Default: https://api.github.com
  --dry-run                  show what would be done, and change nothing
  --uninstall                remove everything, including users and credential
  --root DIR                 for tests: write below DIR, with stand-ins for programs in PATH
END
}

main() {
    parse "$@"
    check_place
    if ((uninstall)); then
        remove_all
        return
    fi
    check_options
    step 'packages' install_packages
    step 'users' make_users
    step 'programs' install_programs
    if judges; then
        step "runner ${runner_version:-(the newest)}" install_runner
        step 'python' install_python
        step 'kernel settings' allow_walls
        step 'network' limit_network
    fi
    if registers; then
        step 'credential and settings' install_settings
    else
        step "the registrar's access" admit_registrar
    fi
    [[ $role != registrar ]] || step 'judge' install_judge
    step 'services' start_services
    printf '\nDone. Watch the log: journalctl --follow --unit pullrank-registrar --unit pullrank-worker\n'
    ! judges ||
        printf 'Check the setup: %s/bin/python -m scripts.cli doctor --runner    (as root, in a clone of the repository)\n' /opt/pullrank/venv
    if [[ $role == both && -z $group_id ]]; then
        warn "root on this machine can read the credential, which makes its holder an admin of $repository.
        Better: an organisation's runner group (--group-id), or the registrar on another machine (--role)"
    fi
}

judges() { [[ $role != registrar ]]; }

registers() { [[ $role != judge ]]; }

# ------------------------------------------------------------------ options

parse() {
    repository='' repository_id='' labels='' runner_version='' runner_sha256='' runner_archive=''
    role='' registrar_key='' judge='' judge_key='' judge_host_key='' torch_requirements=''
    token_file='' app_id='' installation_id='' key_file='' group_id='' branch=main python=python3 torch=torch
    api_url=https://api.github.com allow=() dry_run=0 uninstall=0 root=''
    while (($#)); do
        case $1 in
            --dry-run) dry_run=1 ;;
            --uninstall) uninstall=1 ;;
            -h | --help)
                usage
                exit 0
                ;;
            --repository | --repository-id | --labels | --runner-version | --runner-sha256 | --runner-archive | \
                --token-file | --app-id | --installation-id | --key-file | --group-id | --branch | --python | \
                --torch | --torch-requirements | --allow | --api-url | --root | --role | --registrar-key | --judge | \
                --judge-key | --judge-host-key)
                (($# > 1)) || fail "$1 needs a value"
                local name=${1#--}
                if [[ $name == allow ]]; then allow+=("$2"); else printf -v "${name//-/_}" '%s' "$2"; fi
                shift
                ;;
            *) fail "unknown option '$1'; --help lists them" ;;
        esac
        shift
    done
}

check_place() {
    if [[ -n $root ]]; then
        [[ $root == /* && -d $root ]] || fail "--root $root: must be the absolute path of an existing folder"
        # With --root, the real programs would change this machine.
        case $(command -v systemctl) in
            /usr/* | /bin/* | '') ((dry_run)) || fail '--root is for tests: PATH must begin with a folder of stand-ins for programs' ;;
        esac
    elif ((EUID != 0 && !dry_run)); then
        fail 'must be run as root; to preview the changes: --dry-run'
    fi
    [[ -f $root/etc/debian_version ]] || fail 'this machine is neither Debian nor Ubuntu'
}

check_options() {
    local before
    before=$(conf_value ROLE machine)
    : "${role:=${before:-both}}"
    want role '(both|judge|registrar)' 'both, judge or registrar'
    [[ ${before:-$role} == "$role" ]] || fail "this machine has the role $before; first: install.sh --uninstall"
    if judges; then
        ! command -v "$python" > /dev/null || require_python # a bare machine has none yet
        want repository_id '[1-9][0-9]*' 'the numeric id of the repository on GitHub'
        want branch '[A-Za-z0-9._/-]+' 'the name of a branch'
    fi
    if registers; then
        want repository '[A-Za-z0-9_-]+/[A-Za-z0-9._-]+' 'OWNER/NAME'
    fi
    if [[ $role == both || $role$judge == registrar?* ]]; then
        want labels '[A-Za-z0-9._-]+(,[A-Za-z0-9._-]+)*' 'names separated by commas'
    fi
    if [[ -n $runner_version$runner_sha256$runner_archive ]]; then
        want runner_version '[0-9]+\.[0-9]+\.[0-9]+' 'a version such as 2.345.6'
        want runner_sha256 '[0-9a-f]{64}' '64 hex digits, from the release page'
    fi
    want api_url '(https://|http://127\.0\.0\.1)[A-Za-z0-9./:_-]*' 'a https:// URL'
    [[ -z $group_id ]] || want group_id '[1-9][0-9]*' 'a number'
    [[ -z $app_id ]] || want app_id '[A-Za-z0-9.]+' "the App's id"
    [[ -z $installation_id ]] || want installation_id '[1-9][0-9]*' 'a number'
    local address
    for address in "${allow[@]}"; do
        [[ $address =~ ^[0-9a-fA-F.:]+(/[0-9]+)?$ ]] || fail "--allow $address: must be an IP address or a network"
    done
    local file
    for file in "$token_file" "$key_file" "$runner_archive" "$torch_requirements" "$registrar_key" "$judge_key" \
        "$judge_host_key"; do
        [[ -z $file || -r $file ]] || fail "$file cannot be read"
    done
    check_role
    if registers; then
        check_credential
    else
        [[ -z $token_file$app_id$installation_id$key_file ]] || fail 'a machine that only judges has no credential'
    fi
}

check_role() {
    case $role in
        judge)
            PACKAGES+=(openssh-server)
            [[ -n $registrar_key || -e $root/$AUTHORIZED_KEYS ]] || fail '--registrar-key is missing'
            [[ -z $registrar_key || $(public_keys "$registrar_key" | wc -l) == 1 ]] ||
                fail "$registrar_key: must have one public SSH key"
            ;;
        registrar)
            PACKAGES=(ca-certificates curl jq openssh-client openssl)
            [[ -n $judge || -n $(compgen -G "$root/etc/pullrank/judges/*.conf") ]] || fail '--judge is missing'
            if [[ -n $judge ]]; then
                want judge '([a-z_][a-z0-9_-]*@)?[A-Za-z0-9][A-Za-z0-9.-]*(:[1-9][0-9]*)?' '[USER@]HOST[:PORT]'
                [[ -n $judge_host_key ]] || fail '--judge-host-key is missing'
                [[ -n $(public_keys "$judge_host_key") ]] || fail "$judge_host_key: must have a public SSH key"
            fi
            [[ -n $judge_key || -e $root/etc/pullrank/credential/judge.key ]] || fail '--judge-key is missing'
            [[ -z $judge_key ]] || grep --quiet 'PRIVATE KEY-----$' "$judge_key" ||
                fail "$judge_key: must be a private SSH key"
            ;;
    esac
    [[ $role == judge || -z $registrar_key ]] || fail '--registrar-key belongs to --role judge'
    [[ $role == registrar || -z $judge$judge_key$judge_host_key ]] ||
        fail '--judge, --judge-key and --judge-host-key belong to --role registrar'
}

# public_keys FILE: each key as `TYPE BASE64`.
public_keys() { sed -nE 's/^((ssh|ecdsa|sk)-[a-z0-9@.-]+ [A-Za-z0-9+/]+=*)( .*)?$/\1/p' "$1"; }

check_credential() {
    local there=$root/etc/pullrank/credential
    # A kept credential keeps its runner group.
    [[ -n $group_id$token_file$app_id$installation_id$key_file ]] || group_id=$(conf_value GROUP_ID registrar)
    if [[ -n $token_file && -n $app_id$installation_id$key_file ]]; then
        fail 'give either a token or an App, not both'
    elif [[ -n $app_id$installation_id$key_file ]]; then
        [[ -n $app_id && -n $installation_id ]] || fail '--app-id and --installation-id must be given together'
        [[ -n $key_file || -e $there/app.key ]] || fail '--key-file is missing'
    elif [[ -z $token_file && -e $there/app.key ]]; then
        # The settings of an earlier run have them.
        app_id=$(conf_value APP_ID registrar) installation_id=$(conf_value INSTALLATION_ID registrar)
    elif [[ -z $token_file && ! -e $there/token ]]; then
        fail 'a credential is missing: --token-file, or --app-id, --installation-id and --key-file'
    fi
}

# conf_value KEY FILE
conf_value() { sed -n "s/^$1=//p" "$root/etc/pullrank/$2.conf" 2> /dev/null || true; }

want() {
    local option=--${1//_/-}
    [[ -n ${!1} ]] || fail "$option is missing; --help lists all"
    [[ ${!1} =~ ^$2$ ]] || fail "$option '${!1}': must be $3"
}

# ------------------------------------------------------------------ steps

install_packages() {
    local package missing=()
    for package in "${PACKAGES[@]}"; do
        dpkg-query --show --showformat='${db:Status-Status}' "$package" 2> /dev/null | grep -qx installed ||
            missing+=("$package")
    done
    if ((${#missing[@]})); then
        run apt-get update --quiet=2
        run env DEBIAN_FRONTEND=noninteractive \
            apt-get install --quiet=2 --yes --no-install-recommends "${missing[@]}"
    fi
}

make_users() {
    if judges; then
        make_user "$WORKER" /var/lib/pullrank-runner
        folder 0700 "$WORKER" /var/lib/pullrank-runner
    fi
    if registers; then
        make_user "$REGISTRAR" /nonexistent
    else
        # sshd starts the forced command with the user's shell.  No password fits `*`.
        make_user "$RECEIVER" /var/lib/pullrank-receiver --shell /bin/sh --password '*'
    fi
}

# make_user NAME HOME OPTIONS...
make_user() {
    getent passwd "$1" > /dev/null ||
        run useradd --system --user-group --no-create-home --home-dir "$2" --shell /usr/sbin/nologin "${@:3}" "$1"
}

install_programs() {
    folder 0755 root /opt/pullrank
    folder 0755 root /opt/pullrank/bin
    folder 0755 root /etc/pullrank
    local name programs=() units=()
    ! judges || { programs+=(gate.sh job.sh update.sh) && units+=("${JUDGE_UNITS[@]}"); }
    ! registers || { programs+=(loop.sh) && units+=("${REGISTRAR_UNITS[@]}"); }
    [[ $role != judge ]] || programs+=(receive.sh)
    for name in "${programs[@]}"; do
        place 0755 root "/opt/pullrank/bin/$name" < "$HERE/$name"
    done
    ! judges || place 0644 root /opt/pullrank/bin/gate.conf << END
repository_id=$repository_id
branch=$branch
workflow=.github/workflows/evaluate.yml
END
    place 0644 root /etc/pullrank/machine.conf << END
ROLE=$role
API_URL=${api_url%/}
PINNED_VERSION=$runner_version
END
    for name in "${units[@]}"; do
        place 0644 root "/etc/systemd/system/$name" < "$HERE/$name"
    done
}

install_runner() {
    local update=(env "PULLRANK_ROOT=$root" "$HERE/update.sh" --prepare)
    if [[ -n $runner_version ]]; then
        run "${update[@]}" --version "$runner_version" --sha256 "$runner_sha256" \
            ${runner_archive:+--archive "$runner_archive"} || fail "runner $runner_version was not installed"
        warn "the runner is pinned, so it is never updated: GitHub gives it no jobs 30 days after the next release"
    elif ! run "${update[@]}"; then
        [[ -e $root/opt/pullrank/runner/run.sh ]] || fail 'no runner was installed'
        warn 'the runner was not updated now; pullrank-update.timer tries again daily'
    fi
}

# Use an existing torch in place, and never replace it: it matches this machine's driver.
require_python() {
    "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' ||
        fail "$python is older than Python 3.11; choose another with --python"
}

install_python() {
    local venv=$root/opt/pullrank/venv found
    require_python
    found=$("$python" -c 'import importlib.util, os; print(os.path.dirname(os.path.dirname(importlib.util.find_spec("torch").origin)))' 2> /dev/null) ||
        found=''
    [[ -x $venv/bin/python ]] || run "$python" -m venv ${found:+--system-site-packages} "$venv"
    if [[ -n $found ]] && ! has_module torch; then
        # A venv made from a venv sees the system's packages, but not those of the first venv.
        # shellcheck disable=SC2016 # Python's own braces
        run "$venv/bin/python" -c 'import sys, sysconfig; open(sysconfig.get_path("purelib") + "/found-torch.pth", "w").write(sys.argv[1] + "\n")' "$found"
    fi
    if [[ -n $torch_requirements ]]; then
        has_module torch ||
            run "$venv/bin/python" -m pip install --quiet --require-hashes --requirement "$torch_requirements"
    else
        has_module torch || run "$venv/bin/python" -m pip install --quiet "$torch"
    fi
    has_module numpy || install_locked numpy
    has_libraries || install_locked annotated-types click markdown-it-py mdurl pydantic pydantic-core pygments pyyaml \
        rich typing-extensions typing-inspection
    ((dry_run)) || as_worker "$venv/bin/python" -I -c 'import torch, pydantic, yaml' ||
        fail "$WORKER cannot import torch${found:+ from $found}: make it readable for all users, or choose another --python"
}

# install_locked NAME...: install these, at the versions and with the hashes of requirements.lock.
install_locked() {
    local lock
    lock=$(mktemp)
    awk -v names=" $* " '/^[^ ]/ { split($1, name, "=="); wanted = index(names, " " name[1] " ") } wanted' \
        "$HERE/../../requirements.lock" > "$lock"
    run "$root/opt/pullrank/venv/bin/python" -m pip install --quiet --require-hashes --no-deps --only-binary :all: \
        --requirement "$lock"
    rm -f "$lock"
}

# The system's pydantic is often too old.
has_libraries() {
    has_module pydantic yaml click rich && "$root/opt/pullrank/venv/bin/python" -c \
        'import importlib.metadata, sys; sys.exit(tuple(map(int, importlib.metadata.version("pydantic").split(".")[:2])) < (2, 12))'
}

has_module() {
    "$root/opt/pullrank/venv/bin/python" -c \
        'import importlib.util, sys; sys.exit(not all(map(importlib.util.find_spec, sys.argv[1:])))' "$@" 2> /dev/null
}

# Through a shell: setpriv itself looks up its command with root's rights.
as_worker() { setpriv --reuid="$WORKER" --regid="$WORKER" --clear-groups -- sh -c 'exec "$@"' sh "$@"; }

# The sandbox needs unprivileged user namespaces, and the referee reads its players' memory.  Ubuntu 24.04 restricts
# user namespaces with AppArmor.  This machine only judges, so the setting is changed for the whole machine.
allow_walls() {
    [[ -e $root/sys/fs/cgroup/cgroup.controllers || -e $root/sys/fs/cgroup/unified/cgroup.controllers ]] ||
        warn 'no cgroup v2: players are stopped by signals; boot with systemd.unified_cgroup_hierarchy=1'
    need_setting kernel.apparmor_restrict_unprivileged_userns 0 '1'
    need_setting kernel.unprivileged_userns_clone 1 '0'
    need_setting user.max_user_namespaces 15000 '0'
    need_setting kernel.yama.ptrace_scope 1 '[23]'
}

# need_setting KEY GOOD BAD: if KEY exists and its value matches BAD, set it to GOOD permanently.
need_setting() {
    local now=$root/proc/sys/${1//.//} file=/etc/sysctl.d/60-pullrank.conf kept=''
    [[ -r $now && $(< "$now") =~ ^$3$ ]] || return 0
    [[ ! -e $root$file ]] || kept=$(grep -v "^$1 " "$root$file" || true)
    place 0644 root "$file" <<< "${kept:+$kept$'\n'}$1 = $2"
    run sysctl --quiet --load "$root$file"
}

limit_network() {
    if ! command -v nft > /dev/null; then
        warn "no nft: jobs can reach this machine's network and the cloud's metadata service. apt install nftables, then run this again"
        return
    fi
    local address kind rules=''
    for address in "${allow[@]}"; do
        kind=ip
        [[ $address != *:* ]] || kind=ip6
        rules+="        $kind daddr $address accept"$'\n'
    done
    { sed '/# allowed by install.sh/q' "$HERE/egress.nft" && printf '%s' "$rules" &&
        sed '1,/# allowed by install.sh/d' "$HERE/egress.nft"; } | place 0644 root /etc/pullrank/egress.nft
    place 0644 root /etc/systemd/system/pullrank-egress.service < "$HERE/pullrank-egress.service"
    folder 0755 root /etc/systemd/system/pullrank-worker.service.d
    place 0644 root /etc/systemd/system/pullrank-worker.service.d/egress.conf << 'END'
[Unit]
Requires=pullrank-egress.service
After=pullrank-egress.service

[Service]
# Before each job: a reload of the host's own firewall may have deleted the rules, and left the service active.
ExecStartPre=+/usr/sbin/nft --file /etc/pullrank/egress.nft
END
}

install_settings() {
    folder 0700 "$REGISTRAR" /etc/pullrank/credential
    if [[ -n $token_file ]]; then
        place 0400 "$REGISTRAR" /etc/pullrank/credential/token < "$token_file"
        run rm -f "$root/etc/pullrank/credential/app.key"
    elif [[ -n $key_file ]]; then
        place 0400 "$REGISTRAR" /etc/pullrank/credential/app.key < "$key_file"
        run rm -f "$root/etc/pullrank/credential/token"
    fi
    local all=self-hosted,Linux,X64,$labels
    [[ $(uname -m) != aarch64 ]] || all=self-hosted,Linux,ARM64,$labels
    # The labels of other machines are in their own files.
    [[ $role == both ]] || all=''
    place 0644 root /etc/pullrank/registrar.conf << END
REPOSITORY=$repository
GROUP_ID=$group_id
LABELS=$all
API_URL=${api_url%/}
APP_ID=$app_id
INSTALLATION_ID=$installation_id
END
}

# On a judge: the registrar's key starts receive.sh, and nothing else.  Root owns the file, so the user cannot change it.
admit_registrar() {
    folder 0755 root /var/lib/pullrank-receiver
    folder 0755 root /var/lib/pullrank-receiver/.ssh
    [[ -z $registrar_key ]] || public_keys "$registrar_key" |
        sed 's/^/restrict,command="\/opt\/pullrank\/bin\/receive.sh" /' |
        place 0644 root "/$AUTHORIZED_KEYS"
    place 0644 root /etc/tmpfiles.d/pullrank.conf << END
# What the registrar delivers; only it and root can open this folder.
d /run/pullrank 0700 $RECEIVER $RECEIVER -
END
    run systemd-tmpfiles --create "$root/etc/tmpfiles.d/pullrank.conf"
}

# On a registrar: one of the judges.
install_judge() {
    folder 0755 root /etc/pullrank/judges
    [[ -z $judge_key ]] || place 0400 "$REGISTRAR" /etc/pullrank/credential/judge.key < "$judge_key"
    [[ -n $judge ]] || return 0
    [[ $judge == *@* ]] || judge=$RECEIVER@$judge
    local name=${judge#*@}
    name=${name//:/-}
    public_keys "$judge_host_key" | sed 's/^/judge /' | place 0644 root "/etc/pullrank/judges/$name.known_hosts"
    place 0644 root "/etc/pullrank/judges/$name.conf" << END
JUDGE=$judge
LABELS=self-hosted,Linux,$labels
END
}

start_services() {
    run systemctl daemon-reload
    if [[ -e $root/etc/systemd/system/pullrank-egress.service ]]; then
        run systemctl enable --quiet --now pullrank-egress.service
        run systemctl reload pullrank-egress.service
    fi
    if judges; then
        if [[ -n $runner_version ]]; then
            run systemctl disable --quiet --now pullrank-update.timer
        else
            run systemctl enable --quiet --now pullrank-update.timer
        fi
        run systemctl enable --quiet --now pullrank-worker.path
    fi
    if registers; then
        run systemctl enable --quiet pullrank-registrar.service
        run systemctl restart pullrank-registrar.service
    fi
}

# ------------------------------------------------------------------ uninstall

remove_all() {
    local unit user
    for unit in "${REGISTRAR_UNITS[@]}" "${JUDGE_UNITS[@]}" pullrank-egress.service; do
        [[ ! -e $root/etc/systemd/system/$unit ]] || run systemctl disable --quiet --now "$unit" || true
        run rm -f "$root/etc/systemd/system/$unit"
    done
    run rm -rf "$root/etc/systemd/system/pullrank-worker.service.d" "$root/etc/sysctl.d/60-pullrank.conf" \
        "$root/etc/tmpfiles.d/pullrank.conf" "$root/run/pullrank" \
        "$root/etc/pullrank" "$root/opt/pullrank" "$root/var/lib/pullrank-runner" "$root/var/lib/pullrank-receiver"
    run systemctl daemon-reload
    for user in "$WORKER" "$REGISTRAR" "$RECEIVER"; do
        ! getent passwd "$user" > /dev/null || run userdel "$user"
    done
    echo 'Removed. Packages remain; kernel settings revert at the next boot. Revoke the credential on GitHub.'
}

# ------------------------------------------------------------------ helpers

fail() {
    printf 'install.sh: %s\n' "$1" >&2
    exit 2
}

warn() { printf '  note: %s\n' "$1" >&2; }

step() {
    printf '%s\n' "$1"
    "$2"
}

run() {
    if ((dry_run)); then printf '  would run: %s\n' "$*"; else "$@"; fi
}

# folder MODE OWNER PATH
folder() {
    run mkdir -p "$root$3"
    run chown "$2:$2" "$root$3"
    run chmod "$1" "$root$3"
}

# place MODE OWNER PATH: write stdin to a file atomically, never readable by others in between.
place() {
    if ((dry_run)); then
        printf '  would write: %s (%s, %s)\n' "$root$3" "$1" "$2"
        cat > /dev/null
        return
    fi
    mkdir -p "$(dirname "$root$3")"
    local draft
    draft=$(mktemp "$root$3.XXXXXX")
    cat > "$draft"
    chown "$2:$2" "$draft"
    chmod "$1" "$draft"
    mv "$draft" "$root$3"
}

main "$@"
