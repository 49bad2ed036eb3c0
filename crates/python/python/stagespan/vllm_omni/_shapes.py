"""Which versions of vLLM-Omni the plug-in knows, and whether what is installed is one of them.

Each hook relies on what the watched function does before and after it, so what is recorded for a
version is the text of these functions, as a digest. A function that differs (another release, a
local patch) means that nothing is known of its inside, and the plug-in stays off.

The files are read, not imported: that takes milliseconds and loads nothing.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from importlib import metadata, resources, util
from pathlib import Path
from typing import Any

#: Recorded digests: release line → module → function → digest of its text.
_RECORDED = "_shapes.json"


def problem() -> str | None:
    """Why the installed vLLM-Omni can't be watched; `None` if it can."""
    try:
        version = metadata.version("vllm-omni")
    except metadata.PackageNotFoundError:
        return "vllm-omni is not installed"
    recorded: dict[str, Any] = json.loads(
        resources.files("stagespan.vllm_omni").joinpath(_RECORDED).read_text("utf-8")
    )
    shape = recorded.get(release_line(version))
    if shape is None:
        known = ", ".join(sorted(recorded))
        return (
            f"version {version} of vllm-omni is not known to this version of stagespan, which knows {known}; "
            "look for a newer stagespan"
        )
    differing = sorted(differences(shape))
    if differing:
        return (
            f"vllm-omni says it is {version}, but {differing[0]} is not as released"
            + (f" (and {len(differing) - 1} more)" if len(differing) > 1 else "")
            + "; was it patched?"
        )
    return None


def release_line(version: str) -> str:
    """`0.32` of `0.32.0rc1`."""
    return ".".join(version.split(".")[:2])


def differences(shape: dict[str, dict[str, str]]) -> Iterator[str]:
    """The functions whose text is not what is recorded."""
    for module, functions in shape.items():
        text = source(module)
        for function, digest in functions.items():
            if text is None or digest_of(text, function) != digest:
                yield f"{module}.{function}"


def source(module: str) -> str | None:
    """A module's text, without importing it (its top-level package aside)."""
    package, *rest = module.split(".")
    spec = util.find_spec(package)
    for location in (spec.submodule_search_locations or ()) if spec else ():
        path = Path(location).joinpath(*rest)
        for candidate in (path.with_suffix(".py"), path / "__init__.py"):
            if candidate.is_file():
                return candidate.read_text("utf-8")
    return None


def digest_of(text: str, function: str) -> str | None:
    """The digest of a function's text: `Class.method`, or a function of the module."""
    *classes, name = function.split(".")
    text = "\n" + text
    start, end, indent = 0, len(text), ""
    for heading in (*(f"class {cls}" for cls in classes), f"def {name}"):
        found = _block(text, start, end, indent, heading) or _block(
            text, start, end, indent, f"async {heading}"
        )
        if found is None:
            return None
        start, end = found
        indent += "    "
    return hashlib.sha256(text[start:end].strip().encode()).hexdigest()[:16]


def _block(text: str, start: int, end: int, indent: str, heading: str) -> tuple[int, int] | None:
    """Where the block with that heading begins and ends: before the next line that is indented no
    deeper, closing brackets of a signature aside."""
    # Every pattern begins with the end of a line, which the regex engine finds as fast as `find`.
    head = re.compile(rf"\n{indent}{heading}\b").search(text, start, end)
    if head is None:
        return None
    tail = re.compile(rf"\n {{0,{len(indent)}}}[^ \n)\]}}]").search(text, head.end(), end)
    return head.start(), tail.start() if tail else end
