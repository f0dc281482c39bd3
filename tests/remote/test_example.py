"""The example for buckets runs against the server."""

import os
import subprocess
import sys

from made.shared_data import ROOT


def test_the_bucket(s3, tmp_path):
    settings = {
        f"AWS_{name.upper()}": value
        for name, value in s3.options.items()
        if name != "allow_http"
    }
    environment = os.environ | settings | {"AWS_ALLOW_HTTP": "true"}
    command = [sys.executable, "examples/bucket.py", "s3://corpus/tokens/"]
    command += ["--cache", str(tmp_path), "--steps", "6", "--length", "32"]
    shown = []
    for _ in range(2):
        done = subprocess.run(
            command,
            cwd=ROOT,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        lines = done.stdout.splitlines()
        shown.append([line.split()[-1] for line in lines if line.startswith("step")])
    assert len(set(shown[0] + shown[1])) == 12  # It went on.
    assert not lines[-3].startswith("cache_bytes 0")
