"""Patches a module as soon as it is imported, without importing it.

The modules of an engine take seconds to import, and no process needs all of them: an engine core
never loads the HTTP server, the server never loads a scheduler.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Callable, Sequence
from types import ModuleType

from stagespan.vllm_omni._hooks import fault

Patch = Callable[[ModuleType], None]


def when_imported(module: str, patch: Patch) -> None:
    """Runs `patch` with the module: now if it is there already, else right after its import."""
    loaded = sys.modules.get(module)
    if loaded is not None and not _is_being_imported(loaded):
        _run(patch, loaded)
        return
    _finder.patches.setdefault(module, []).append(patch)
    if _finder not in sys.meta_path:
        sys.meta_path.insert(0, _finder)


def _is_being_imported(module: ModuleType) -> bool:
    spec = getattr(module, "__spec__", None)
    return bool(getattr(spec, "_initializing", False))


def _run(patch: Patch, module: ModuleType) -> None:
    try:
        patch(module)
    except Exception:
        fault(f"patch of {module.__name__}")


class _PatchingLoader(importlib.abc.Loader):
    """The module's own loader, and then the patches."""

    def __init__(self, loader: importlib.abc.Loader, patches: Sequence[Patch]) -> None:
        self._loader = loader
        self._patches = patches

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        # Whoever asks the module for its source or its resources finds its own loader.
        module.__loader__ = self._loader
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        self._loader.exec_module(module)
        for patch in self._patches:
            _run(patch, module)


class _Finder(importlib.abc.MetaPathFinder):
    """Finds the modules to be patched as everybody else would, and wraps their loader."""

    def __init__(self) -> None:
        self.patches: dict[str, list[Patch]] = {}

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname not in self.patches:
            return None
        for finder in sys.meta_path:
            if finder is self or not hasattr(finder, "find_spec"):
                continue
            spec = finder.find_spec(fullname, path, target)
            if spec is not None:
                break
        else:
            return None
        patches = self.patches.pop(fullname)
        if not self.patches and self in sys.meta_path:
            sys.meta_path.remove(self)
        if spec.loader is not None:
            spec.loader = _PatchingLoader(spec.loader, patches)
        return spec


_finder = _Finder()
