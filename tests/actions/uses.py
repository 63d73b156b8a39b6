"""Stand-ins for the actions that the workflows use, by name.  Inputs and outputs are those of each one's action.yml."""

from __future__ import annotations

import io
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import jwt

from tests.actions.shell import StepFailed

if TYPE_CHECKING:
    from tests.actions.job import Play

Inputs = dict[str, str]
PAGES = "github-pages"
_PERMISSIONS = ("actions", "checks", "contents", "issues", "pull-requests", "workflows")


def checkout(play: Play, inputs: Inputs) -> Inputs:
    """Check out a commit, with as much history as the step asks for.

    The token is required, as for a private repository.
    """
    if inputs["persist-credentials"] != "false":
        raise StepFailed("the token would stay in .git/config")
    if not play.token.allows("contents", "read"):
        raise StepFailed("Repository not found")
    wanted = inputs.get("ref") or play.live.run.head_sha
    commit = play.hub.world.git.find_commit(wanted)
    if commit is None:
        raise StepFailed(f"couldn't find remote ref {wanted}")
    play.hub.world.git.check_out(commit, play.workspace, is_shallow=inputs.get("fetch-depth", "1") == "1")
    return {}


def setup_python(play: Play, inputs: Inputs) -> Inputs:
    return {"python-version": inputs["python-version"]}


def upload_artifact(play: Play, inputs: Inputs) -> Inputs:
    """Upload the files of a folder; a run may use each name once."""
    folder = play.workspace / inputs["path"]
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    if not files:
        if inputs["if-no-files-found"] == "error":
            raise StepFailed(f"No files were found with the provided path: {inputs['path']}")
        return {}
    return _keep(play, inputs["name"], folder, files)


def _keep(play: Play, name: str, folder: Path, files: list[Path]) -> Inputs:
    if any(artifact.name == name for artifact in play.live.run.artifacts):
        raise StepFailed(f"Conflict: an artifact with this name already exists on the workflow run: {name}")
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in files:
            archive.write(file, file.relative_to(folder))
    artifact = play.hub.world.add_artifact(play.live.run, name, made.getvalue())
    return {"artifact-id": str(artifact.id), "artifact-digest": artifact.digest}


def download_artifact(play: Play, inputs: Inputs) -> Inputs:
    """Unpack one artifact of this run, by its id, directly into the folder."""
    artifact = play.hub.world.find_artifact(int(inputs["artifact-ids"]))
    if artifact not in play.live.run.artifacts:
        raise StepFailed(f"Unable to find artifact {inputs['artifact-ids']} of this run")
    with zipfile.ZipFile(io.BytesIO(artifact.content)) as archive:
        archive.extractall(play.workspace / inputs["path"])
    return {}


def upload_pages_artifact(play: Play, inputs: Inputs) -> Inputs:
    """Upload all but hidden files."""
    folder = play.workspace / inputs["path"]
    paths = ((path, path.relative_to(folder)) for path in sorted(folder.rglob("*")))
    files = [path for path, inside in paths if path.is_file() and not any(part[0] == "." for part in inside.parts)]
    return _keep(play, inputs.get("name", PAGES), folder, files)


def deploy_pages(play: Play, inputs: Inputs) -> Inputs:
    """Publish the files to `hub.pages`."""
    if not (play.token.allows("pages", "write") and play.token.allows("id-token", "write")):
        raise StepFailed('Ensure GITHUB_TOKEN has permission "pages: write" and "id-token: write"')
    if (play.hub.world.settings.get("pages") or {}).get("build_type") != "workflow":
        raise StepFailed("Failed to create deployment (status: 404). Ensure GitHub Pages has been enabled")
    name = inputs.get("artifact_name", PAGES)
    found = [artifact for artifact in play.live.run.artifacts if artifact.name == name]
    if len(found) != 1:
        raise StepFailed(f"Artifact count is {len(found)} for {name}")
    (artifact,) = found
    shutil.rmtree(play.hub.pages, ignore_errors=True)
    with zipfile.ZipFile(io.BytesIO(artifact.content)) as archive:
        archive.extractall(play.hub.pages)
    return {"page_url": "https://acme.github.io/kernels/"}


def create_github_app_token(play: Play, inputs: Inputs) -> Inputs:
    """A token of the App that the key belongs to, with the permissions that the job asks for."""
    world, asked = play.hub.world, {"iss": inputs["client-id"]}
    app = world.apps.get(inputs["client-id"])
    try:
        signed = jwt.encode(asked, inputs["private-key"], "RS256")
        jwt.decode(signed, app.public_key if app else "", algorithms=["RS256"])
    except (jwt.InvalidTokenError, jwt.InvalidKeyError) as error:
        raise StepFailed(f"A JSON web token could not be decoded: {error}") from None
    assert app
    wanted = {
        name.removeprefix("permission-"): level for name, level in inputs.items() if name.startswith("permission-")
    }
    granted = {name.replace("_", "-"): level for name, level in (app.permissions or {}).items()}
    if any(granted.get(name) not in (level, "write") for name, level in wanted.items()):
        raise StepFailed("The permissions requested are not granted to this installation.")
    return {"token": world.app_token(app.slug, wanted).value, "app-slug": app.slug}


ACTIONS: dict[str, tuple[Callable[[Play, Inputs], Inputs], set[str]]] = {
    "actions/checkout": (checkout, {"ref", "persist-credentials", "fetch-depth"}),
    "actions/create-github-app-token": (
        create_github_app_token,
        {"client-id", "private-key", *(f"permission-{name}" for name in _PERMISSIONS)},
    ),
    "actions/setup-python": (setup_python, {"python-version"}),
    "actions/upload-artifact": (upload_artifact, {"name", "path", "retention-days", "if-no-files-found"}),
    "actions/download-artifact": (download_artifact, {"artifact-ids", "path"}),
    "actions/upload-pages-artifact": (upload_pages_artifact, {"name", "path"}),
    "actions/deploy-pages": (deploy_pages, {"artifact_name"}),
}
"""Stand-ins by action, and the inputs that workflows may give them."""
