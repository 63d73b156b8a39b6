"""GitHub's state: accounts, tokens, pull requests, comments, checks, runs, and what people do with them.

People in a test act through the methods of `World`; the commands under test act through HTTP.  Either way,
`world.listeners` get an `Event`, as a workflow would on GitHub: actions of a workflow's own token start nothing, except
`workflow_dispatch`.
"""

from __future__ import annotations

import hashlib
import secrets
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from tests.github_server.git import Content, GitRepository

Json = dict[str, Any]

ACTIONS_BOT_ID = 41898282
RUNS_LIVE = timedelta(days=90)


@dataclass(eq=False)
class User:
    id: int
    login: str
    type: str = "User"
    permission: str = "read"
    pushed_at: datetime | None = None
    """When the account last pushed to its repository: its fork, or for the owner this one."""


@dataclass(eq=False)
class Budget:
    """The requests of an hour that all tokens of an account share."""

    limit: int
    used: int = 0
    ends: datetime | None = None

    @property
    def remaining(self) -> int:
        return max(0, self.limit - self.used)

    def spend(self, now: datetime) -> bool:
        """Count a request; False if none is left in this hour."""
        if self.ends is None or now >= self.ends:
            self.used, self.ends = 0, now + timedelta(hours=1)
        is_left = self.remaining > 0
        self.used += is_left
        return is_left


@dataclass(eq=False)
class Token:
    """`scopes` are as in a workflow's `permissions:`; None is a personal token that may do what its user may."""

    value: str
    user: User
    scopes: dict[str, str] | None
    budget: Budget
    points: Budget
    """For GraphQL queries."""
    used: int = 0

    @property
    def is_workflows(self) -> bool:
        return self.scopes is not None

    def allows(self, scope: str, level: str) -> bool:
        if self.scopes is None and scope == "administration":
            return self.user.permission == "admin"
        if self.scopes is None:
            return level == "read" or self.user.permission in ("write", "admin")
        return scope == "metadata" or self.scopes.get(scope) in {"read": ("read", "write"), "write": ("write",)}[level]


@dataclass(eq=False)
class App:
    """A GitHub App; `permissions` are those of its installation on the repository, None without one."""

    client_id: str
    slug: str
    permissions: dict[str, str] | None

    @property
    def private_key(self) -> str:
        return key_pair()[0]

    @property
    def public_key(self) -> str:
        return key_pair()[1]


@cache
def key_pair() -> tuple[str, str]:
    """The private and the public key of all Apps, in PEM format."""
    made = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    public = made.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    encoding, form = serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL
    return made.private_bytes(encoding, form, serialization.NoEncryption()).decode(), public.decode()


@dataclass(eq=False)
class Comment:
    id: int
    number: int
    author: User | None
    body: str
    created_at: datetime
    updated_at: datetime
    reactions: list[tuple[int, User, str]] = field(default_factory=list)


@dataclass(eq=False)
class Pull:
    """`head_repo_id` is None if the fork was deleted."""

    number: int
    author: User | None
    title: str
    body: str
    head_ref: str
    head_sha: str
    head_repo_id: int | None
    base_ref: str
    base_sha: str
    created_at: datetime
    updated_at: datetime
    draft: bool = False
    state: str = "open"
    merged_at: datetime | None = None
    merged_by: User | None = None


@dataclass(eq=False)
class Check:
    id: int
    head_sha: str
    name: str
    app: User
    """The bot of the App that created it."""
    status: str = "queued"
    conclusion: str | None = None
    external_id: str = ""
    started_at: datetime | None = None
    completed_at: datetime | None = None
    output: Json = field(default_factory=dict)
    annotations: list[Json] = field(default_factory=list)


@dataclass(eq=False)
class Job:
    id: int
    name: str
    status: str = "queued"
    conclusion: str | None = None
    started_at: datetime | None = None
    completed_at: datetime | None = None
    runner: str = ""


@dataclass(eq=False)
class Artifact:
    id: int
    name: str
    content: bytes
    created_at: datetime
    expired: bool = False

    @property
    def digest(self) -> str:
        return hashlib.sha256(self.content).hexdigest()


@dataclass(eq=False)
class Run:
    """A workflow run.  `workflow` is the file's name."""

    id: int
    workflow: str
    event: str
    title: str
    head_sha: str
    head_branch: str
    actor: User
    created_at: datetime
    updated_at: datetime
    inputs: dict[str, str] = field(default_factory=dict)
    status: str = "queued"
    conclusion: str | None = None
    jobs: list[Job] = field(default_factory=list)
    artifacts: list[Artifact] = field(default_factory=list)


@dataclass(frozen=True)
class Activity:
    """A change of a branch in the repository's activity."""

    id: int
    ref: str
    before: str
    after: str
    actor: User | None
    at: datetime

    @property
    def kind(self) -> str:
        return "push" if self.before.strip("0") else "branch_creation"


@dataclass(frozen=True)
class Event:
    """An event that starts a workflow: its name, its payload, and the run if GitHub has already made one."""

    name: str
    payload: Json
    actor: User
    run: Run | None = None


class World:
    """One repository, `owner/name`, with everything around it.  Methods may be called from any thread."""

    def __init__(self, folder: Path, repository: str = "acme/kernels", *, default_branch: str = "main") -> None:
        self.repository = repository
        self.repository_id = 700_000_001
        self.default_branch = default_branch
        self.git = GitRepository(folder / f"{repository}.git", default_branch)
        self.lock = threading.RLock()
        self.clock: Callable[[], datetime] = lambda: datetime.now(UTC).replace(microsecond=0)
        self.web_url = "https://github.com"
        self.api_url = "https://api.github.com"
        self.users: dict[str, User] = {}
        self.tokens: dict[str, Token] = {}
        self.budgets: dict[int, Budget] = {}
        """By account id."""
        self.points: dict[int, Budget] = {}
        self.apps: dict[str, App] = {}
        """By client id."""
        self.pulls: dict[int, Pull] = {}
        self.comments: dict[int, Comment] = {}
        self.checks: dict[int, Check] = {}
        self.forks: set[str] = set()
        """The accounts with a fork, in lower case; its branches are `refs/forks/<login>/…` of the one store."""
        self.labels: dict[str, Json] = {}
        self.activity: list[Activity] = []
        """Pushes by HTTP, oldest first."""
        self.runs: dict[int, Run] = {}
        self.listed_after = timedelta(0)
        """The delay until lists of runs show a new one."""
        self.disabled_workflows: set[str] = set()
        self.variables: dict[str, str] = {}
        """The repository's variables, which workflows read as `vars`."""
        self.settings: Json = {}
        """The data of `settings_api`."""
        self.events: list[Event] = []
        self.listeners: list[Callable[[Event], None]] = []
        """Called during a request: a listener must not send requests to the server before it returns."""
        self._ids = count(1001)
        self._numbers = count(1)
        self.owner = self.add_user(repository.split("/")[0], permission="admin")
        self.bot = self.add_user("github-actions[bot]", user_id=ACTIONS_BOT_ID, kind="Bot", permission="write")

    def next_id(self) -> int:
        return next(self._ids)

    # Accounts

    def add_user(self, login: str, *, user_id: int | None = None, kind: str = "User", permission: str = "read") -> User:
        """An account: the existing one of this login, or a new one."""
        with self.lock:
            made = User(user_id or self.next_id(), login, kind, permission)
            return self.users.setdefault(login.lower(), made)

    def rename(self, user: User, login: str) -> None:
        with self.lock:
            del self.users[user.login.lower()]
            user.login = login
            self.users[login.lower()] = user

    def workflow_token(self, scopes: Mapping[str, str]) -> Token:
        """A job's `GITHUB_TOKEN`, with the job's `permissions:`."""
        return self._add_token(f"ghs_{secrets.token_hex(18)}", self.bot, dict(scopes), 1000)

    def add_app(self, slug: str, permissions: dict[str, str] | None) -> App:
        app = App(f"Iv23li{slug}", slug, permissions)
        self.apps[app.client_id] = app
        return app

    def app_token(self, slug: str, scopes: Mapping[str, str]) -> Token:
        """A token of a GitHub App that is installed here, with its own budget.  Its actions start workflows."""
        bot = self.add_user(f"{slug}[bot]", kind="Bot", permission="write")
        return self._add_token(f"ghs_{secrets.token_hex(18)}", bot, dict(scopes), 5000)

    def personal_token(self, user: User | None = None) -> Token:
        return self._add_token(f"ghp_{secrets.token_hex(18)}", user or self.owner, None, 5000)

    def _add_token(self, value: str, user: User, scopes: dict[str, str] | None, limit: int) -> Token:
        with self.lock:
            budget, points = (of.setdefault(user.id, Budget(limit)) for of in (self.budgets, self.points))
            made = self.tokens[value] = Token(value, user, scopes, budget, points)
        return made

    # What people do

    def commit(self, files: Mapping[str, Content], *, branch: str = "", message: str = "Change") -> str:
        """Push a commit to a branch of the repository itself, by default the default branch."""
        branch = branch or self.default_branch
        with self.lock:
            sha = self.git.commit(files, parent=self.git.find_commit(branch), message=message)
            self.git.set_ref(f"refs/heads/{branch}", sha)
            self.owner.pushed_at = self.clock()
        self.emit("push", {"ref": f"refs/heads/{branch}", "after": sha}, self.owner)
        return sha

    def open_pull(
        self,
        author: User,
        files: Mapping[str, Content],
        *,
        title: str = "Add a submission",
        body: str = "",
        draft: bool = False,
        branch: str = "patch-1",
        modes: Mapping[str, str] | None = None,
    ) -> Pull:
        """Open a pull request from the author's fork, one commit ahead of the default branch."""
        with self.lock:
            base = self.git.find_commit(self.default_branch)
            assert base
            head = self.git.commit(files, parent=base, message=title, modes=modes)
            self.git.set_ref(f"refs/forks/{author.login.lower()}/{branch}", head)
            author.pushed_at = self.clock()
        return self.add_pull(author, head, title=title, body=body, draft=draft, branch=branch)

    def add_pull(self, author: User, head: str, *, title: str, body: str, draft: bool, branch: str) -> Pull:
        """Open a pull request for a commit on one of the author's branches."""
        with self.lock:
            base = self.git.find_commit(self.default_branch)
            assert base
            now = self.clock()
            pull = Pull(
                number=next(self._numbers),
                author=author,
                title=title,
                body=body,
                head_ref=branch,
                head_sha=head,
                head_repo_id=800_000_000 + author.id,
                base_ref=self.default_branch,
                base_sha=base,
                created_at=now,
                updated_at=now,
                draft=draft,
            )
            self.pulls[pull.number] = pull
            self.git.set_ref(f"refs/pull/{pull.number}/head", head)
        self.emit_pull("opened", pull)
        return pull

    def follow_branch(self, owner: str, branch: str, head: str) -> None:
        """Update a branch's open pull request after a push."""
        for pull in self.pulls.values():
            login = pull.author.login.lower() if pull.author else ""
            if (login, pull.head_ref, pull.state) == (owner, branch, "open") and pull.head_sha != head:
                self._move_head(pull, head, pull.base_sha)

    def _move_head(self, pull: Pull, head: str, base: str) -> str:
        with self.lock:
            before, pull.head_sha, pull.base_sha = pull.head_sha, head, base
            if pull.author:
                pull.author.pushed_at = self.clock()
            self.git.set_ref(f"refs/pull/{pull.number}/head", head)
            self.touch(pull)
        self.emit_pull("synchronize", pull, before=before, after=head)
        return head

    def push(self, pull: Pull, files: Mapping[str, Content], *, modes: Mapping[str, str] | None = None) -> str:
        """Push one more commit to a pull request's branch."""
        with self.lock:
            head = self.git.commit(files, parent=pull.head_sha, modes=modes)
            base = self.git.find_commit(pull.base_ref) or pull.base_sha
        return self._move_head(pull, head, base)

    def update_branch(self, pull: Pull) -> str:
        """Merge the base branch into a pull request's, as its author does with the button or with `gh`."""
        with self.lock:
            tip = self.git.find_commit(pull.base_ref)
            tree = self.git.merge_trees(tip, pull.head_sha) if tip else None
            assert tip and tree
            head = self.git.commit_tree(tree, [pull.head_sha, tip], "Merge branch")
        return self._move_head(pull, head, tip)

    def add_fork(self, user: User) -> None:
        """A fork of the repository as it is now; the existing fork, if there is one."""
        with self.lock:
            if user.login.lower() not in self.forks:
                self.forks.add(user.login.lower())
                self.sync_fork(user.login)

    def sync_fork(self, login: str) -> None:
        tip = self.git.find_commit(self.default_branch)
        assert tip
        self.git.set_ref(f"refs/forks/{login.lower()}/{self.default_branch}", tip)

    def mark_ready(self, pull: Pull, actor: User | None = None) -> None:
        pull.draft = False
        self.touch(pull)
        self.emit_pull("ready_for_review", pull, actor=actor)

    def convert_to_draft(self, pull: Pull) -> None:
        pull.draft = True
        self.touch(pull)
        self.emit_pull("converted_to_draft", pull)

    def close(self, pull: Pull, actor: User | None = None) -> None:
        with self.lock:
            pull.state = "closed"
            self.touch(pull)
        self.emit_pull("closed", pull, actor=actor)

    def reopen(self, pull: Pull) -> None:
        with self.lock:
            pull.state = "open"
            self.touch(pull)
        self.emit_pull("reopened", pull)

    def add_comment(self, number: int, author: User, body: str) -> Comment:
        with self.lock:
            now = self.clock()
            comment = Comment(self.next_id(), number, author, body, now, now)
            self.comments[comment.id] = comment
            self.touch(self.pulls[number])
        self.emit_comment("created", comment)
        return comment

    def edit_comment(self, comment: Comment, body: str, actor: User | None = None) -> None:
        with self.lock:
            before, comment.body, comment.updated_at = comment.body, body, self.clock()
        self.emit_comment("edited", comment, actor=actor, changes={"body": {"from": before}})

    def touch(self, pull: Pull) -> None:
        pull.updated_at = self.clock()

    def comments_on(self, number: int) -> list[Comment]:
        return [comment for comment in self.comments.values() if comment.number == number]

    def note_push(self, ref: str, before: str | None, actor: User | None) -> None:
        """Log a push in the repository's activity."""
        after = self.git.find_commit(ref)
        if after and after != before:
            self.activity.append(Activity(self.next_id(), ref, before or "0" * 40, after, actor, self.clock()))

    # What runs

    def start_run(
        self,
        workflow: str,
        event: str,
        *,
        title: str = "",
        actor: User | None = None,
        inputs: Mapping[str, str] | None = None,
        ref: str = "",
    ) -> Run:
        """A workflow run, queued; the mini-runner moves it on."""
        ref = ref or self.default_branch
        with self.lock:
            now = self.clock()
            run = Run(
                id=self.next_id(),
                workflow=workflow,
                event=event,
                title=title or workflow,
                head_sha=self.git.find_commit(ref) or "0" * 40,
                head_branch=ref,
                actor=actor or self.bot,
                created_at=now,
                updated_at=now,
                inputs=dict(inputs or {}),
            )
            self.runs[run.id] = run
            return run

    def start_job(self, run: Run, name: str, runner: str = "GitHub Actions 1") -> Job:
        with self.lock:
            now = self.clock()
            job = Job(self.next_id(), name, status="in_progress", started_at=now, runner=runner)
            run.jobs.append(job)
            run.status, run.updated_at = "in_progress", now
            return job

    def finish_job(self, job: Job, conclusion: str) -> None:
        with self.lock:
            job.status, job.conclusion, job.completed_at = "completed", conclusion, self.clock()
            job.started_at = job.started_at or job.completed_at

    def finish_run(self, run: Run, conclusion: str) -> None:
        with self.lock:
            if run.status != "completed":
                run.status, run.conclusion, run.updated_at = "completed", conclusion, self.clock()

    def delete_old(self) -> None:
        """Delete what GitHub deletes in public repositories: old runs, their artifacts and check runs."""
        before = self.clock() - RUNS_LIVE
        self.runs = {key: run for key, run in self.runs.items() if run.created_at > before}
        self.checks = {key: one for key, one in self.checks.items() if (one.started_at or before) >= before}

    def add_artifact(self, run: Run, name: str, content: bytes) -> Artifact:
        """Store a zip as an artifact of a run, as `actions/upload-artifact` does."""
        with self.lock:
            artifact = Artifact(self.next_id(), name, content, self.clock())
            run.artifacts.append(artifact)
            return artifact

    def find_artifact(self, artifact_id: int) -> Artifact | None:
        found = (artifact for run in self.runs.values() for artifact in run.artifacts if artifact.id == artifact_id)
        return next(found, None)

    # Events

    def emit(self, name: str, payload: Json, actor: User, *, run: Run | None = None) -> None:
        """Send an event to the listeners, unless a workflow's own token caused it."""
        if actor is self.bot and name != "workflow_dispatch":
            return
        event = Event(name, payload, actor, run)
        with self.lock:
            self.events.append(event)
            listeners = list(self.listeners)
        for listener in listeners:
            listener(event)

    def emit_pull(self, action: str, pull: Pull, *, actor: User | None = None, **more: Any) -> None:
        from tests.github_server.webhooks import pull_request_event

        actor = actor or pull.author or self.owner
        self.emit("pull_request_target", pull_request_event(self, action, pull, actor, **more), actor)

    def emit_comment(self, action: str, comment: Comment, *, actor: User | None = None, **more: Any) -> None:
        from tests.github_server.webhooks import issue_comment_event

        actor = actor or comment.author or self.owner
        self.emit("issue_comment", issue_comment_event(self, action, comment, actor, **more), actor)
