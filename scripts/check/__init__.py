"""`/check`: a pull request that changes tasks, looked at without being run; then, on a maintainer's word, judged.

static_check   the task's files as text   ─┐
plan           which tasks, which files    ├─►  a machine without rights judges the examples  ─►  findings, flaws
check_tasks    the hosted ends            ─┘
"""
