#!/bin/bash
# The registrar: in a loop, registers a one-job runner with GitHub, passes it to the worker, and waits for its end.
#
#   credential ─▶ a one-hour token ─▶ generate-jitconfig ─▶ /run/pullrank/jitconfig
#                                                              └ pullrank-worker.path starts the worker
#   the worker ends ─▶ job.sh clean removes the file ─▶ the next one
#
# Or the judge is another machine: then the registration goes there by ssh, to receive.sh.  One registrar serves several
# judges, each with a loop of its own:
#
#   judges/NAME.conf           JUDGE=[USER@]HOST[:PORT]   LABELS=...
#   judges/NAME.known_hosts    the only host key that is accepted
#
# It runs as pullrank-registrar, the only user that can read the credential; jobs run as pullrank-runner.  Secrets never
# appear on a command line: curl and ssh read them from stdin or a file.
#
#   loop.sh           run forever
#   loop.sh --once    one registration, without waiting for the worker (for trying it out)
set -euo pipefail

# From registrar.conf: REPOSITORY, GROUP_ID (empty without a runner group), LABELS (of a judge on this machine), API_URL,
# APP_ID, INSTALLATION_ID.
: "${REPOSITORY:?}" "${API_URL:?}"
: "${LABELS:=}" "${GROUP_ID:=}" "${APP_ID:=}" "${INSTALLATION_ID:=}"
# From systemd.
: "${RUNTIME_DIRECTORY:=/run/pullrank}" "${CREDENTIAL:=/etc/pullrank/credential}" "${JUDGES:=/etc/pullrank/judges}"

: "${FIRST_PAUSE:=5}" "${MAX_PAUSE:=600}" # seconds
: "${SHORTEST_JOB:=8}" # seconds: workers that end sooner have not judged
BUSY=75 # receive.sh: a job is there
JUDGE='' KNOWN_HOSTS='' # the judge that this loop serves, if it is another machine

main() {
    umask 077
    local conf once=0
    [[ ${1:-} != --once ]] || once=1
    for conf in "$JUDGES"/*.conf; do
        [[ -e $conf ]] || continue
        if ((once)); then (serve_judge "$conf" register); else serve_judge "$conf" serve & fi
    done
    if [[ ! -e $conf ]]; then
        if ((once)); then register; else serve; fi
    elif ((!once)); then
        trap 'kill $(jobs -p) 2> /dev/null' EXIT
        # None of them ever ends; if one does, systemd starts all again.
        wait -n
        return 1
    fi
}

# serve_judge CONF COMMAND
serve_judge() {
    local key value
    while IFS='=' read -r key value; do
        case $key in
            JUDGE) JUDGE=$value ;;
            LABELS) LABELS=$value ;;
        esac
    done < "$1"
    KNOWN_HOSTS=${1%.conf}.known_hosts
    "$2"
}

serve() {
    local pause=$FIRST_PAUSE began
    while :; do
        if wait_until_free && began=$SECONDS && register && wait_until_free && ((SECONDS - began >= SHORTEST_JOB)); then
            pause=$FIRST_PAUSE
        else
            # GitHub refuses, the judge does not answer, or workers end at once: back off.
            say "next try in $pause s"
            sleep "$pause"
            pause=$((pause * 2 > MAX_PAUSE ? MAX_PAUSE : pause * 2))
        fi
    done
}

say() { printf 'loop: %s%s\n' "${JUDGE:+$JUDGE: }" "$1" >&2; }

wait_until_free() {
    local status=$BUSY
    if [[ -z $JUDGE ]]; then
        while [[ -e $RUNTIME_DIRECTORY/jitconfig ]] || systemctl is-active --quiet pullrank-worker.service; do
            sleep 1
        done
        return
    fi
    while :; do
        status=0
        on_judge wait < /dev/null || status=$?
        ((status == BUSY)) || return "$status"
        sleep 1
    done
}

# on_judge WORDS: have the judge's receive.sh do this, with stdin passed on.  The judge's words are untrusted.
on_judge() {
    local said status=0
    said=$(timeout 3700 ssh -F /dev/null -T -a -x -i "$CREDENTIAL/judge.key" -o IdentitiesOnly=yes -o BatchMode=yes \
        -o StrictHostKeyChecking=yes -o UserKnownHostsFile="$KNOWN_HOSTS" -o GlobalKnownHostsFile=/dev/null \
        -o HostKeyAlias=judge -o CheckHostIP=no -o UpdateHostKeys=no -o ClearAllForwardings=yes \
        -o ConnectTimeout=15 -o ServerAliveInterval=15 -o ServerAliveCountMax=4 "ssh://$JUDGE" "$1" 2>&1 |
        head --bytes=10000 | tr --complement --squeeze-repeats '[:print:]' ' ' | tail --bytes=300) || status=$?
    ((status == 0 || status == BUSY)) || say "the judge's machine: ${said:-no answer}"
    return "$status"
}

# Register one runner and leave the registration for the worker, or log the reason of a failure.
register() {
    local name secret answer config
    name=${JUDGE#*@} # its host
    name=${name:-$HOSTNAME}
    name=pullrank-${name%%[.:]*}-$(date -u +%Y%m%d%H%M%S)-$RANDOM
    name=${name//[^A-Za-z0-9-]/-}
    secret=$(bearer) || return 1
    answer=$(ask "$(url_of_registrations)" "$(body "${name:0:64}")" "$secret") || return 1
    config=$(jq --raw-output '.encoded_jit_config // empty' <<< "$answer")
    if [[ -z $config ]]; then
        say "GitHub's answer has no registration"
        return 1
    fi
    if [[ -n $JUDGE ]]; then
        printf '%s' "$config" | on_judge "deliver ${#config}" || return 1
    else
        printf '%s' "$config" > "$RUNTIME_DIRECTORY/.jitconfig"
        mv "$RUNTIME_DIRECTORY/.jitconfig" "$RUNTIME_DIRECTORY/jitconfig"
    fi
    say "registered ${name:0:64}"
}

# Runner groups belong to organisations; without one, the runner belongs to the repository.
url_of_registrations() {
    if [[ -n $GROUP_ID ]]; then
        echo "$API_URL/orgs/${REPOSITORY%%/*}/actions/runners/generate-jitconfig"
    else
        echo "$API_URL/repos/$REPOSITORY/actions/runners/generate-jitconfig"
    fi
}

body() {
    jq --null-input --compact-output --arg name "$1" --arg labels "$LABELS" --argjson group "${GROUP_ID:-1}" \
        '{name: $name, runner_group_id: $group, labels: ($labels | split(",")), work_folder: "_work"}'
}

# The token that may register: a fine-grained one, or one made from an App's key with this permission only.
bearer() {
    if [[ -r $CREDENTIAL/app.key ]]; then
        local permission=administration answer
        [[ -z $GROUP_ID ]] || permission=organization_self_hosted_runners
        answer=$(ask "$API_URL/app/installations/$INSTALLATION_ID/access_tokens" \
            "{\"permissions\":{\"$permission\":\"write\"}}" "$(app_jwt)") || return 1
        jq --raw-output '.token // empty' <<< "$answer"
    elif [[ -r $CREDENTIAL/token ]]; then
        cat "$CREDENTIAL/token"
    else
        say "no credential in $CREDENTIAL: add one with install.sh"
        return 1
    fi
}

# RS256, valid for nine minutes, and from a minute ago in case clocks differ.
app_jwt() {
    local now head claims
    now=$(date +%s)
    head=$(printf '{"alg":"RS256","typ":"JWT"}' | base64url)
    claims=$(printf '{"iat":%d,"exp":%d,"iss":"%s"}' $((now - 60)) $((now + 540)) "$APP_ID" | base64url)
    printf '%s.%s.%s' "$head" "$claims" \
        "$(printf '%s.%s' "$head" "$claims" | openssl dgst -sha256 -sign "$CREDENTIAL/app.key" -binary | base64url)"
}

base64url() { openssl base64 -A | tr '+/' '-_' | tr -d '='; }

# ask URL BODY SECRET: send a POST request, and print the answer.
ask() {
    local answer
    if ! answer=$(printf 'header = "Authorization: Bearer %s"\n' "$3" |
        curl --config - --silent --show-error --fail-with-body --max-time 30 --request POST \
            --header 'Accept: application/vnd.github+json' --header 'X-GitHub-Api-Version: 2022-11-28' \
            --header 'User-Agent: pullrank-registrar' --data "$2" "$1"); then
        say "$1: $(jq --raw-output '.message // empty' <<< "$answer" 2> /dev/null | head -c 300)"
        return 1
    fi
    printf '%s' "$answer"
}

main "$@"
