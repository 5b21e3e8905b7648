"""`mlgo-gym demo` without a network."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

DEAD_PROXIES = dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"), "http://127.0.0.1:9")


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_packaged_modules_take_the_place_of_a_dataset_without_a_network(tmp_path: Path) -> None:
    command = [str(Path(sys.executable).with_name("mlgo-gym")), "demo", "--output", str(tmp_path / "demo")]
    variables = {**os.environ, **DEAD_PROXIES, "MLGO_CACHE": str(tmp_path / "cache")}
    result = subprocess.run(command, capture_output=True, text=True, env=variables, check=False)
    assert result.returncode == 0, result.stderr
    assert "8 modules of builtin@Os" in result.stderr
    assert [line.partition(":")[0] for line in result.stdout.splitlines()[-3:]] == ["saved", "train", "build"]
    assert (tmp_path / "demo" / "builtin@Os" / "episodes.jsonl").exists()
