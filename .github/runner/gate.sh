#!/bin/bash
# The job gate: the runner starts it before any step of a job (ACTIONS_RUNNER_HOOK_JOB_STARTED).
#
# It kills the worker, its parent process, unless the job is from evaluate.yml on the default branch of one repository,
# started by workflow_dispatch.  A failing hook would not be enough: steps with `if: always()` and actions' `pre:` would
# still run.  GitHub sets all four values; a workflow cannot.
#
# gate.conf, in the same folder:  repository_id=123  branch=main  workflow=.github/workflows/evaluate.yml
#
# It uses bash built-ins only, and no failure ends it before its decision.
set +e -uf

end_worker() {
    printf 'gate: %s. This runner only judges: the job ends here.\n' "$1"
    kill -KILL "$PPID" && exit 1
    # The kill failed: block, so that no step of this job starts.
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

[[ -n $repository_id && -n $branch && -n $workflow ]] || end_worker 'gate.conf is missing or incomplete'
repository=${GITHUB_REPOSITORY:-}
[[ ${GITHUB_REPOSITORY_ID:-} == "$repository_id" ]] || end_worker "not repository number $repository_id"
[[ ${GITHUB_EVENT_NAME:-} == workflow_dispatch ]] || end_worker 'not started by workflow_dispatch'
[[ ${GITHUB_REF:-} == "refs/heads/$branch" ]] || end_worker "not on $branch"
[[ -n $repository && ${GITHUB_WORKFLOW_REF:-} == "$repository/$workflow@refs/heads/$branch" ]] ||
    end_worker "not $workflow of $branch"

printf 'gate: %s of %s, repository number %s: job accepted.\n' "$workflow" "$branch" "$repository_id"
