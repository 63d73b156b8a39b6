#!/bin/bash
# The job gate: what the runner starts before anything of a job (ACTIONS_RUNNER_HOOK_JOB_STARTED).
#
# It ends the worker, its parent, for every job but the one that this machine is for: the file evaluate.yml of the
# default branch of one repository, started by workflow_dispatch.  A hook that only fails would not do: steps with
# `if: always()` and actions' `pre:` would still run.  All four values are the server's, not the workflow's.
#
# gate.conf, beside this file:  repository_id=123  branch=main  workflow=.github/workflows/evaluate.yml
#
# Nothing but what bash has built in is used, and no failure ends this script before its decision.
set +e -uf

end_worker() {
    printf 'gate: %s. This runner judges, and does nothing else: the job ends here.\n' "$1"
    kill -KILL "$PPID" && exit 1
    # That was impossible; no step of this job may begin all the same.
    while :; do read -r -t 3600 _ <> <(:); done
}

repository_id='' branch='' workflow=''
while IFS='=' read -r key value; do
    case $key in
        repository_id) repository_id=$value ;;
        branch) branch=$value ;;
        workflow) workflow=$value ;;
    esac
done < "${BASH_SOURCE[0]%/*}/gate.conf"

[[ -n $repository_id && -n $branch && -n $workflow ]] || end_worker 'gate.conf is missing or not complete'
repository=${GITHUB_REPOSITORY:-}
[[ ${GITHUB_REPOSITORY_ID:-} == "$repository_id" ]] || end_worker "not repository number $repository_id"
[[ ${GITHUB_EVENT_NAME:-} == workflow_dispatch ]] || end_worker 'not started by workflow_dispatch'
[[ ${GITHUB_REF:-} == "refs/heads/$branch" ]] || end_worker "not on $branch"
[[ -n $repository && ${GITHUB_WORKFLOW_REF:-} == "$repository/$workflow@refs/heads/$branch" ]] ||
    end_worker "not $workflow of $branch"

printf 'gate: %s of %s, repository number %s: come in.\n' "$workflow" "$branch" "$repository_id"
