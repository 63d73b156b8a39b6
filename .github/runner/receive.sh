#!/bin/bash
# The judge's end of the connection from a registrar on another machine.  sshd starts it, and nothing else, for the
# registrar's key: as pullrank-receiver, with the registrar's words in SSH_ORIGINAL_COMMAND.
#
#   wait            return when no job is here; after an hour, 75: ask again
#   deliver BYTES   read a one-job registration of this size from stdin, and leave it for the worker; 75: a job is here
#
# Neither needs the connection afterwards: if the registrar hangs up, a job goes on, and `wait` ends by itself.
set -euo pipefail
export LC_ALL=C

: "${RUNTIME_DIRECTORY:=/run/pullrank}"
: "${LONGEST_WAIT:=3600}" "${LONGEST_DELIVERY:=20}" # seconds
MAX_BYTES=65536 # a registration has about 6,000

BUSY=75

main() {
    umask 077
    [[ ${SSH_ORIGINAL_COMMAND:-} =~ ^(wait|deliver\ ([1-9][0-9]{0,5}))$ ]] || refuse 2 'say wait, or deliver BYTES'
    if [[ $SSH_ORIGINAL_COMMAND == wait ]]; then
        await_end
    else
        deliver "${BASH_REMATCH[2]}"
    fi
}

refuse() {
    printf 'receive: %s\n' "$2" >&2
    exit "$1"
}

is_busy() { [[ -e $RUNTIME_DIRECTORY/jitconfig ]] || systemctl is-active --quiet pullrank-worker.service; }

await_end() {
    while is_busy; do
        ((SECONDS < LONGEST_WAIT)) || refuse "$BUSY" 'a job is here'
        sleep 1
    done
}

deliver() {
    ! is_busy || refuse "$BUSY" 'a job is here'
    (($1 <= MAX_BYTES)) || refuse 1 "a registration has at most $MAX_BYTES bytes"
    draft=$(mktemp "$RUNTIME_DIRECTORY/.incoming.XXXXXX")
    trap 'rm -f "$draft"' EXIT
    timeout "$LONGEST_DELIVERY" head --bytes=$(($1 + 1)) > "$draft" || refuse 1 'the registration did not arrive in time'
    (($(wc --bytes < "$draft") == $1)) || refuse 1 "the registration does not have $1 bytes"
    (($(tr --delete 'A-Za-z0-9+/=' < "$draft" | wc --bytes) == 0)) || refuse 1 'the registration is not base64'
    # One delivery at a time; the lock ends with this process.
    exec 8< "$RUNTIME_DIRECTORY"
    flock --nonblock 8 || refuse "$BUSY" 'a job is here'
    ! is_busy || refuse "$BUSY" 'a job is here'
    mv "$draft" "$RUNTIME_DIRECTORY/jitconfig"
}

main
