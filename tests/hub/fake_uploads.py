"""The half of the fake hub that takes uploads: create, validate, preupload, LFS batch, commit."""

import base64
import json
import re
from typing import Any
from urllib.parse import unquote, urlsplit

SIGNATURE = "X-Amz-Signature=5ec4e7"
LARGE = 1000  # bytes from which a file is in LFS


class Uploads:
    """What a POST to the hub does; the rest of the handler is in fake_hub.py."""

    fake: Any
    headers: Any
    path: str
    rfile: Any

    def do_POST(self) -> None:  # noqa: N802 - the name http.server calls
        self.note()
        if self.headers.get("Transfer-Encoding", "").lower() == "chunked":
            body = self.read_chunks()
        else:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        path = urlsplit(self.path).path
        if not self.headers.get("Authorization") and not path.startswith("/api/validate"):
            self.fail(401, "", "Invalid username or password.")
        elif path == "/api/repos/create":
            asked = json.loads(body)
            repo = "/".join(filter(None, [asked.get("organization"), asked["name"]]))
            if repo in self.fake.repos:
                self.json({"url": f"{self.fake.endpoint}/datasets/{repo}"}, 409)
                return
            self.fake.commit(repo, {})
            self.json(
                {"url": f"{self.fake.endpoint}/datasets/{repo}", "private": asked.get("private")}
            )
        elif path == "/api/validate-yaml":
            self.json({"errors": [], "warnings": []})
        elif path.endswith("/info/lfs/objects/batch"):
            self.lfs_batch(json.loads(body))
        elif match := re.fullmatch(r"/api/datasets/(.+)/preupload/([^/]+)", path):
            if not self.find(match[1], unquote(match[2])):
                return
            asked = json.loads(body)["files"]
            self.json({"files": [self.upload_mode(file) for file in asked]})
        elif match := re.fullmatch(r"/api/datasets/(.+)/branch/([^/]+)", path):
            self.fake.refs[match[1], unquote(match[2])] = self.fake.refs[match[1], "main"]
            self.json({})
        elif match := re.fullmatch(r"/api/datasets/(.+)/commit/([^/]+)", path):
            self.make_commit(match[1], unquote(match[2]), body)
        else:
            self.fail(404, "NotFound")

    def read_chunks(self) -> bytes:
        body = b""
        while size := int(self.rfile.readline().split(b";")[0], 16):
            body += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return body

    def upload_mode(self, file: dict[str, object]) -> dict[str, object]:
        large = int(str(file["size"])) >= LARGE
        return {
            "path": file["path"],
            "uploadMode": "lfs" if large else "regular",
            "shouldIgnore": False,
        }

    def lfs_batch(self, asked: dict[str, object]) -> None:
        objects = []
        for wanted in asked["objects"]:  # type: ignore[attr-defined]
            entry = {"oid": wanted["oid"], "size": wanted["size"]}
            if wanted["oid"] not in self.fake.objects:
                href = f"{self.fake.store_address}/{wanted['oid']}?{SIGNATURE}"
                entry["actions"] = {"upload": {"href": href, "header": {}}}
            objects.append(entry)
        self.json({"transfer": "basic", "objects": objects})

    def make_commit(self, repo: str, revision: str, body: bytes) -> None:
        if self.api_fault("api:commit"):
            return
        found = self.find(repo, revision)
        if found is None:
            return
        files = dict(found[1])
        for line in body.splitlines():
            entry = json.loads(line)
            value = entry["value"]
            if entry["key"] == "file":
                files[value["path"]] = base64.b64decode(value["content"])
            elif entry["key"] == "lfsFile":
                files[value["path"]] = self.fake.objects[value["oid"]]
            elif entry["key"] == "deletedFile":
                files.pop(value["path"])
        commit = self.fake.commit(repo, files, revision)
        address = f"{self.fake.endpoint}/datasets/{repo}/commit/{commit}"
        self.json({"commitOid": commit, "commitUrl": address, "success": True})
