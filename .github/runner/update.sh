#!/bin/bash
# Install a release of GitHub's runner, and use it from the next job on.
#
#   update.sh                               the newest release that has been out for three days, if it is newer than the
#                                           installed one; pullrank-update.timer starts this daily
#   update.sh --version X.Y.Z --sha256 HEX [--archive FILE]      this release; install.sh pins it
#   update.sh --prepare                     also install the libraries that the runner needs (install.sh)
#
# GitHub gives no jobs to a runner that lacks a release of 30 days ago, and one-job runners never update themselves.
# A release is downloaded, checked and tried in a folder of its own; then one rename puts it in use.  Whatever fails
# before that changes nothing.  The previous release stays, since a job may be copying it.
#
# A worker that waits for a job is ended, so that the loop registers the new version.  A busy worker is never ended.
set -euo pipefail

root=${PULLRANK_ROOT:-} # for tests
worker=${PULLRANK_WORKER:-pullrank-runner}
home=$root/opt/pullrank
COOL_DOWN_DAYS=3 # a release that is withdrawn, or was never meant, is usually noticed by then
MAX_ANSWER=20000000 MAX_ARCHIVE=1000000000

API_URL=https://api.github.com PINNED_VERSION=''

main() {
    umask 022
    version='' sha256='' archive='' url='' prepare=0 scratch=''
    while (($#)); do
        case $1 in
            --version | --sha256 | --archive) printf -v "${1#--}" '%s' "${2:?$1 needs a value}" && shift ;;
            --prepare) prepare=1 ;;
            *) fail "unknown option '$1'" ;;
        esac
        shift
    done
    read_conf
    # One at a time; the lock ends with this process.
    exec 9< "$home"
    flock --wait 600 9 || fail 'another update is still running'
    # An update that was killed may have left its folder.
    rm -rf "$home"/.incoming.*
    scratch=$(mktemp --directory "$home/.incoming.XXXXXX")
    trap 'rm -rf "$scratch"' EXIT
    chmod 0755 "$scratch"
    local current
    current=$(installed_version)
    if [[ -z $version ]]; then
        if [[ -n $PINNED_VERSION ]]; then
            say "runner $PINNED_VERSION is pinned: install.sh without --runner-version ends that"
            return
        fi
        find_release
        if [[ -n $current && $(newer "$current" "$version") == "$current" ]]; then
            say "runner $current is the newest that has been out for $COOL_DOWN_DAYS days"
            end_old_worker
            return
        fi
    fi
    if [[ ! -e $home/runner-$version/.complete || $(< "$home/runner-$version/.complete") != "$sha256" ]]; then
        install_release
    fi
    if [[ $current != "$version" ]]; then
        use "runner-$version"
        say "runner $version is installed${current:+; before, it was $current}"
    fi
    end_old_worker
}

say() { printf 'update: %s\n' "$1"; }

fail() {
    local stays
    stays=$(installed_version)
    if [[ -n $stays ]]; then stays="runner $stays stays in use"; else stays='no runner is installed'; fi
    printf 'update: %s; %s\n' "$1" "$stays" >&2
    exit 1
}

# What install.sh wrote: KEY=value.
read_conf() {
    local key value
    [[ -r $root/etc/pullrank/machine.conf ]] || return 0
    while IFS='=' read -r key value; do
        case $key in
            API_URL) API_URL=$value ;;
            PINNED_VERSION) PINNED_VERSION=$value ;;
        esac
    done < "$root/etc/pullrank/machine.conf"
}

installed_version() {
    local link
    link=$(readlink "$home/runner" 2> /dev/null) || return 0
    [[ ! -e $home/runner/run.sh ]] || echo "${link#runner-}"
}

# newer A B: print the newer version.
newer() { printf '%s\n' "$@" | sort --version-sort | tail -n 1; }

kind() { if [[ $(uname -m) == aarch64 ]]; then echo arm64; else echo x64; fi; }

# Set version, sha256 and url to those of the newest release that is old enough.
find_release() {
    local found
    fetch "$scratch/releases" "$MAX_ANSWER" 60 "$API_URL/repos/actions/runner/releases?per_page=30"
    # shellcheck disable=SC2016 # jq's own variables
    found=$(jq --raw-output --arg kind "$(kind)" --argjson days "$COOL_DOWN_DAYS" '
        [ .[]
          | select((.draft or .prerelease | not) and (.tag_name | test("^v[0-9]+[.][0-9]+[.][0-9]+$")))
          | select((.published_at | fromdateiso8601) <= now - $days * 86400)
          | (.tag_name | ltrimstr("v")) as $version
          | {$version, asset: (.assets[] | select(.name == "actions-runner-linux-\($kind)-\($version).tar.gz"))} ]
        | max_by(.version | split(".") | map(tonumber))
        | if . then "\(.version) \(.asset.digest) \(.asset.browser_download_url)" else empty end
    ' "$scratch/releases" 2> /dev/null) || fail "$API_URL sent no list of releases"
    [[ -n $found ]] || fail "no release has been out for $COOL_DOWN_DAYS days"
    [[ $found =~ ^([0-9.]+)\ sha256:([0-9a-f]{64})\ (https?://[^\ ]+)$ ]] ||
        fail "the release ${found%% *} has no SHA-256"
    version=${BASH_REMATCH[1]} sha256=${BASH_REMATCH[2]} url=${BASH_REMATCH[3]}
}

# fetch FILE MAX_BYTES SECONDS URL: with TLS, except from this machine (for tests).
fetch() {
    local error protocol='=https'
    [[ $API_URL != http://127.0.0.1* ]] || protocol='=http'
    error=$(curl --fail --silent --show-error --location --proto "$protocol" --max-filesize "$2" --max-time "$3" \
        --retry 2 --user-agent pullrank-update --output "$1" "$4" 2>&1) || fail "$4: ${error//$'\n'/ }"
}

install_release() {
    local new=$scratch/runner
    mkdir "$new"
    if [[ -z $archive ]]; then
        archive=$scratch/runner.tar.gz
        : "${url:=https://github.com/actions/runner/releases/download/v$version/actions-runner-linux-$(kind)-$version.tar.gz}"
        fetch "$archive" "$MAX_ARCHIVE" 1800 "$url"
    fi
    echo "$sha256  $archive" | sha256sum --check --status || fail "runner $version: the SHA-256 is not $sha256"
    tar --extract --gzip --no-same-owner --file "$archive" --directory "$new" 2> /dev/null ||
        fail "runner $version could not be unpacked"
    chmod -R go-w "$new"
    # Libraries for .NET, from the list in the runner.  The service may not install packages.
    if ((prepare)); then
        "$new/bin/installdependencies.sh" || fail "the libraries of runner $version could not be installed"
    fi
    try_release "$new"
    # This machine's own settings.
    [[ ! -f $home/runner/.env ]] || cp --preserve=mode "$home/runner/.env" "$new/.env"
    printf '%s\n' "$sha256" > "$new/.complete"
    # The same version with another sum: a pin was corrected.
    rm -rf "${home:?}/runner-$version"
    mv "$new" "$home/runner-$version"
}

# try_release FOLDER: the runner must start on this machine and say its version.  It runs as nobody, and writes a log.
try_release() {
    local said
    mkdir -p "$1/_diag"
    chmod 1777 "$1/_diag"
    said=$(setpriv --reuid=65534 --regid=65534 --clear-groups --no-new-privs -- \
        env -i PATH=/usr/bin:/bin HOME=/nonexistent DOTNET_EnableDiagnostics=0 \
        timeout 60 "$1/bin/Runner.Listener" --version 2> /dev/null) || true
    rm -rf "$1/_diag"
    [[ $said == "$version" ]] || fail "runner $version does not start on this machine: run install.sh again"
}

# use FOLDER: switch the link with one rename, and keep only this release and the one before.
use() {
    local before old
    before=$(readlink "$home/runner" 2> /dev/null) || true
    rm -f "$home/.runner"
    ln --symbolic "$1" "$home/.runner"
    mv --no-target-directory "$home/.runner" "$home/runner"
    for old in "$home"/runner-*; do
        [[ $old == "$home/$1" || $old == "$home/$before" ]] || rm -rf "$old"
    done
}

# A worker that waits for a job has the version that it started with: end it, so that the loop registers a new one.  If
# a job begins in this very moment, it is lost, and the bot judges again.
end_old_worker() {
    local copy=$root/var/lib/pullrank-runner/job/.complete
    systemctl is-active --quiet pullrank-worker.service || return 0
    # A job's files are not read: only before a job are they still ours.
    if pgrep -x -u "$worker" Runner.Worker > /dev/null; then
        say 'the worker is busy; the next job gets this version'
    elif [[ -f $copy && $(< "$copy") != $(< "$home/runner/.complete") ]]; then
        systemctl stop pullrank-worker.service
        say 'the worker was waiting for a job; it starts again with this version'
    fi
}

main "$@"
