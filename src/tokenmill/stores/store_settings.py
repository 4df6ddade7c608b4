"""How each store is reached: endpoint and credentials, from each cloud's usual variables.

obstore reads most of them itself (AWS_*, GOOGLE_*, AZURE_*, and the identity of a machine in a
cloud). Here is what it does not read: ~/.aws, STORAGE_EMULATOR_HOST, an Azure connection string.
"""

import configparser
import os
from collections.abc import Mapping
from typing import Any

from tokenmill.base.address import Address
from tokenmill.errors import TokenmillError

_KEYS = {
    "aws_access_key_id": "access_key_id",
    "aws_secret_access_key": "secret_access_key",
    "aws_session_token": "session_token",
}
_ENDPOINTS = {
    "s3": ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT"),
    "az": ("AZURE_STORAGE_ENDPOINT",),
}
_OTHER_LOGINS = ("sso_session", "sso_start_url", "role_arn", "credential_process")
CREDENTIALS_HINT = {
    "s3": "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE; for a public bucket, "
    "AWS_SKIP_SIGNATURE=true",
    "gs": "set GOOGLE_APPLICATION_CREDENTIALS to the file of a service account, or run `gcloud "
    "auth application-default login`; for a public bucket, GOOGLE_SKIP_SIGNATURE=true",
    "az": "set AZURE_STORAGE_ACCOUNT_NAME with AZURE_STORAGE_ACCOUNT_KEY or "
    "AZURE_STORAGE_SAS_TOKEN, or AZURE_STORAGE_CONNECTION_STRING",
}


def settings_of(address: Address) -> dict[str, Any]:
    """What to tell obstore about a store besides what it finds in the environment."""
    if address.scheme == "s3":
        return _s3()
    if address.scheme == "gs" and (emulator := os.environ.get("STORAGE_EMULATOR_HOST")):
        url = emulator if "://" in emulator else f"http://{emulator}"
        token = {"token": "emulator", "expires_at": None}  # at which it does not look
        return {"base_url": url, "credential_provider": lambda: token}
    return _azure() if address.scheme == "az" else {}


def endpoint_of(address: Address) -> str:
    """Where requests go, as far as it is not the cloud's own https."""
    if address.scheme.startswith("http"):
        return address.root
    found = settings_of(address)
    use_emulator = os.environ.get("AZURE_STORAGE_USE_EMULATOR", "").lower()
    if address.scheme == "az" and use_emulator in ("true", "1"):
        return "http://127.0.0.1:10000"
    stated = [found.get("endpoint"), found.get("base_url")]
    stated += [os.environ.get(name) for name in _ENDPOINTS.get(address.scheme, ())]
    return str(next(filter(None, stated), "https://"))


def _s3() -> dict[str, Any]:
    """Region, endpoint and keys of a profile, where the environment does not state them."""
    profile = _profile(os.environ.get("AWS_PROFILE") or os.environ.get("AWS_DEFAULT_PROFILE"))
    found: dict[str, Any] = {}
    if not ({"AWS_REGION", "AWS_DEFAULT_REGION"} & set(os.environ)) and "region" in profile:
        found["region"] = profile["region"]
    if not set(_ENDPOINTS["s3"]) & set(os.environ) and "endpoint_url" in profile:
        found["endpoint"] = profile["endpoint_url"]
    if "AWS_ACCESS_KEY_ID" in os.environ:
        return found
    if any(name in profile for name in _OTHER_LOGINS):
        found["credential_provider"] = _boto3_login()
    return found | {ours: profile[name] for name, ours in _KEYS.items() if name in profile}


def _profile(name: str | None) -> Mapping[str, str]:
    """What ~/.aws/config and ~/.aws/credentials say of a profile; the second has the last word."""
    home = os.path.join(os.path.expanduser("~"), ".aws")
    config = os.environ.get("AWS_CONFIG_FILE") or os.path.join(home, "config")
    keys = os.environ.get("AWS_SHARED_CREDENTIALS_FILE") or os.path.join(home, "credentials")
    wanted = name or "default"
    found = dict[str, str]()
    for path, section in ((config, f"profile {wanted}"), (config, wanted), (keys, wanted)):
        files = configparser.RawConfigParser()
        files.read(path, encoding="utf-8")
        if files.has_section(section):
            found |= dict(files.items(section))
    if name is not None and not found:
        raise TokenmillError(
            f"AWS_PROFILE is {name!r}, and no such profile is in {config} or {keys}",
            hint="check the name; `aws configure list-profiles` lists them",
        )
    return found


def _boto3_login() -> Any:
    try:
        from obstore.auth.boto3 import Boto3CredentialProvider
    except ImportError as error:
        raise TokenmillError(
            "the AWS profile logs in by a role, SSO or a program, which needs the package boto3",
            hint="pip install boto3; or set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
        ) from error
    return Boto3CredentialProvider()


def _azure() -> dict[str, Any]:
    stated = os.environ.get("AZURE_STORAGE_CONNECTION_STRING", "")
    parts = dict(part.split("=", 1) for part in stated.split(";") if "=" in part)
    names = {
        "AccountName": "account_name",
        "AccountKey": "account_key",
        "BlobEndpoint": "endpoint",
        "SharedAccessSignature": "sas_key",
    }
    return {ours: parts[theirs] for theirs, ours in names.items() if theirs in parts}
