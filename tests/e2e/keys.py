"""Client keys for a gateway that demands them."""

import hashlib
import json
import secrets
import subprocess

import harness


def new_client_key(gateway, name):
    """A key of `name`, made before the gateway starts: by `throughline key new`, or in the key file by hand where there is no such command."""
    env = {**gateway.env, "THROUGHLINE_DATA_DIR": str(gateway.data_dir)}
    done = subprocess.run([harness.BINARY, "key", "new", "--name", name], capture_output=True, text=True, timeout=30, env=env)
    if done.returncode == 0:
        return json.loads(done.stdout)["key"]
    if done.returncode != 2:
        raise AssertionError(f"throughline key new: exit {done.returncode}: {done.stderr}")
    key, salt = "tlk_" + secrets.token_urlsafe(32), secrets.token_hex(16)
    entry = {
        "id": "key_" + secrets.token_hex(8),
        "name": name,
        "salt": salt,
        "hash": hashlib.sha256(f"{salt}\n{key}".encode()).hexdigest(),
        "createdAt": "2026-01-01T00:00:00.000Z",
        "revokedAt": None,
    }
    path = gateway.data_dir / "keys" / "clients.json"
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    gateway.data_dir.chmod(0o700)
    known = json.loads(path.read_text()) if path.exists() else []
    path.write_text(json.dumps([*known, entry]))
    path.chmod(0o600)
    return key
