"""Compile the core as a part of the wheel's build; without a compiler the wheel is pure and the reference runs."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.builders.macos import process_macos_plat_tag
from packaging.tags import platform_tags


class CoreBuildHook(BuildHookInterface):
    """Puts the core's libraries into the wheel. Editable installs use those in the source tree."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        build = _build_module(Path(self.root))
        try:
            made = build.Build().run()
        except build.CannotBuildError as error:
            self.app.display_warning(f"rayhull is installed without its compiled core: {error}")
            return
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{_platform()}"
        for path in made:
            build_data["force_include"][str(path)] = f"rayhull/core/lib/{path.name}"


def _platform() -> str:
    """The plain tag; whether a wheel for Linux is "manylinux" is for auditwheel to say.

    For macOS the release that was built for (MACOSX_DEPLOYMENT_TARGET), not the one that it was built on.
    """
    plain = next(tag for tag in platform_tags() if "linux_" not in tag or tag.startswith("linux_"))
    return process_macos_plat_tag(plain, compat=False)


def _build_module(root: Path) -> Any:
    """rayhull.core.build, without importing rayhull: NumPy need not be there yet."""
    spec = importlib.util.spec_from_file_location("rayhull_core_build", root / "src/rayhull/core/build.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module
