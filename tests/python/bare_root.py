"""A root folder with the C and C++ runtimes, and what a test adds: whatever starts in it by chroot needs nothing else."""

import os
import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path


RUNTIME = ("libstdc++.so.6", "libgcc_s.so.1", "libm.so.6", "libmvec.so.1", "libpthread.so.0", "libdl.so.2", "librt.so.1", "libutil.so.1",
           "libresolv.so.2")  # fmt: skip


def why_not():
    """Why programs cannot be run in a folder as their root here: None where they can."""
    if os.geteuid() != 0:
        return "chroot needs root"
    if shutil.which("chroot") is None or shutil.which("unshare") is None:
        return "there is no chroot, or no unshare"
    tried = ["unshare", "--mount", "sh", "-c", "mount --rbind /proc /proc && chroot / /bin/true"]
    if subprocess.run(tried, check=False, capture_output=True).returncode != 0:
        return "chroot is not allowed, or mounting is not"
    return None


class BareRoot:
    def __init__(self, folder):
        self.folder = Path(folder)
        for name in ("tmp", "proc", "dev", "etc", "root"):
            (self.folder / name).mkdir(parents=True)
        (self.folder / "dev" / "null").touch()
        self.add("/usr/bin/env")
        self.add_libraries_of("/usr/bin/env")
        for name in RUNTIME:
            found = subprocess.run(["gcc", f"-print-file-name={name}"], capture_output=True, text=True, check=True).stdout.strip()
            self.add(found, f"/lib/x86_64-linux-gnu/{name}")
            self.add_libraries_of(found)

    def add(self, path, at=None):
        """Copies a file, with what a link points to, to the same place or to `at`."""
        to = self.folder / str(at or path).lstrip("/")
        to.parent.mkdir(parents=True, exist_ok=True)
        if not to.exists():
            shutil.copy2(os.path.realpath(path), to)

    def add_libraries_of(self, *programs):
        listed = subprocess.run(["ldd", *map(str, programs)], capture_output=True, text=True, check=False).stdout
        for path in set(re.findall(r"(/\S+) \(0x", listed)):
            self.add(path)

    def add_python(self):
        """The interpreter of these tests and its standard library, with no packages but pip. Returns its path in the root."""
        base, library = Path(sys.base_prefix), Path(sysconfig.get_path("stdlib", vars={"installed_base": sys.base_prefix}))
        real = Path(os.path.realpath(sys.executable))
        self.add(real)
        self.add_libraries_of(real, *library.glob("lib-dynload/*.so"))
        shutil.copytree(library, self.folder / str(library).lstrip("/"), symlinks=False, dirs_exist_ok=True,
                        ignore=shutil.ignore_patterns("site-packages", "dist-packages", "test", "__pycache__", "idlelib", "*.a"))  # fmt: skip
        for library in base.glob("lib/libpython*.so*"):
            self.add(library)
        return str(real)

    def run(self, *words, **environment):
        """Runs a program in the root, with the host's /proc, by which the dynamic linker finds libraries beside a program. Returns stdout and
        stderr; asserts that it succeeds."""
        mounted = 'mount --rbind /proc "$0/proc" && exec chroot "$0" /usr/bin/env -i "$@"'
        variables = {"PATH": "/usr/bin:/bin:/usr/local/bin", "HOME": "/root", **environment}
        words = [*(f"{name}={value}" for name, value in variables.items()), *map(str, words)]
        ended = subprocess.run(["unshare", "--mount", "sh", "-c", mounted, self.folder, *words], capture_output=True, text=True, check=False,
                               timeout=300)  # fmt: skip
        assert ended.returncode == 0, ended.stdout + ended.stderr
        return ended.stdout + ended.stderr
