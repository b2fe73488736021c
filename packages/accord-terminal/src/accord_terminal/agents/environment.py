"""Which variables an entry of a registry may set for its agent."""

from __future__ import annotations

import re
from collections.abc import Mapping

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# They change which programs and libraries are loaded, where files are, and who is trusted.
_PREFIXES = (
    "ACCORD_",
    "AWS_",
    "AZURE_",
    "BUN_",
    "CARGO_",
    "CONDA_",
    "CURL_",
    "DENO_",
    "DOCKER_",
    "DYLD_",
    "GCONV_",
    "GIT_",
    "GITHUB_",
    "GLIBC_",
    "GPG_",
    "JAVA_",
    "JDK_",
    "KUBE",
    "LD_",
    "LUA_",
    "MALLOC_",
    "NODE_",
    "NPM_",
    "OPENSSL_",
    "PERL",
    "PIP_",
    "PNPM_",
    "PYTHON",
    "RUBY",
    "RUST",
    "SSH_",
    "SSL_",
    "SUDO_",
    "UV_",
    "XDG_",
    "YARN_",
)
_NAMES = frozenset(
    (
        "ALL_PROXY",
        "APPDATA",
        "BASH_ENV",
        "BROWSER",
        "CDPATH",
        "CLASSPATH",
        "COMSPEC",
        "DISPLAY",
        "EDITOR",
        "ENV",
        "GEM_HOME",
        "GEM_PATH",
        "GOFLAGS",
        "GOPATH",
        "HOME",
        "HTTPS_PROXY",
        "HTTP_PROXY",
        "IFS",
        "LOCALAPPDATA",
        "LOGNAME",
        "NO_PROXY",
        "PAGER",
        "PATH",
        "PATHEXT",
        "PROGRAMDATA",
        "PROGRAMFILES",
        "PWD",
        "REQUESTS_CA_BUNDLE",
        "SHELL",
        "SHELLOPTS",
        "SYSTEMROOT",
        "TEMP",
        "TMP",
        "TMPDIR",
        "USER",
        "USERNAME",
        "USERPROFILE",
        "VIRTUAL_ENV",
        "VISUAL",
        "WINDIR",
        "ZDOTDIR",
        "_JAVA_OPTIONS",
    )
)


def is_allowed(name: str) -> bool:
    """Return whether an entry may set this variable (R-REG-12)."""
    upper = name.upper()  # Windows does not distinguish, and proxies have small names too
    return bool(_NAME.fullmatch(name)) and upper not in _NAMES and not upper.startswith(_PREFIXES)


def allowed_environment(env: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
    """Return the variables that may be set, and the names of the others."""
    kept = {name: value for name, value in env.items() if is_allowed(name) and "\0" not in value}
    return kept, sorted(env.keys() - kept.keys())
