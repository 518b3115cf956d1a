"""The four ways of docs/install.md: each package trains in a bare root, which has neither a compiler nor the libraries of the build."""

import os
import shutil
import subprocess
import time
import zipfile
from pathlib import Path

import pytest
from bare_root import BareRoot, why_not

ROOT = Path(__file__).resolve().parents[2]
TRAINING = ["--pp", "2", "--tp", "4", "--microbatch", "1", "--steps", "3"]  # the README's options

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(why_not() is not None, reason=f"a bare root: {why_not()}"),
    pytest.mark.skipif("PIPETRAIN_PROGRAM" not in os.environ, reason="PIPETRAIN_PROGRAM names no program"),
]


def package(kind, folder):
    made = subprocess.run([ROOT / "dev", "package", kind, f"{folder}/"], capture_output=True, text=True, check=False)
    assert made.returncode == 0, made.stderr
    return Path(made.stdout.splitlines()[-1])


def trains(text):
    return "3 steps, loss" in text


def test_the_wheel_installs_without_a_compiler_and_trains(tmp_path):
    wheel = package("wheel", tmp_path / "dist")
    assert "-manylinux_2_" in wheel.name
    root = BareRoot(tmp_path / "root")
    python = root.add_python()
    pip = next((Path(__import__("ensurepip").__file__).parent / "_bundled").glob("pip-*.whl"), None)
    pip = pip or next(Path("/usr/share/python-wheels").glob("pip-*.whl"))
    root.add(pip, f"/root/{pip.name}")
    root.add(wheel, f"/root/{wheel.name}")
    begin = time.monotonic()
    root.run(python, f"/root/{pip.name}/pip", "install", "--no-index", "--no-deps", "--no-cache-dir", f"/root/{wheel.name}")
    took = time.monotonic() - begin
    print(f"pip install took {took:.1f} s")
    command = str(Path(python).parent / "pipetrain")
    assert (root.folder / command.lstrip("/")).exists()
    assert trains(root.run(python, "-m", "pipetrain", *TRAINING))
    assert trains(root.run(command, *TRAINING))
    assert "zb-h1" in root.run(python, "-c", "import pipetrain; print(pipetrain.simulate(2, 4, 'zb-h1').timeline.title)")
    with zipfile.ZipFile(wheel) as files:
        licences = [name for name in files.namelist() if name.startswith("pipetrain/licenses/")]
    assert licences or shutil.which("dpkg-query") is None


def test_the_tarball_trains_where_it_is_unpacked(tmp_path):
    tarball = package("tarball", tmp_path / "dist")
    root = BareRoot(tmp_path / "root")
    (root.folder / "opt").mkdir()
    subprocess.run(["tar", "-C", root.folder / "opt", "-xf", tarball], check=True)
    name = tarball.name.removesuffix(".tar.gz")
    assert trains(root.run(f"/opt/{name}/bin/pipetrain", *TRAINING))


def closure(packages):
    """The packages with what they depend on, as far as they are installed here."""
    found, coming = {}, list(packages)
    while coming:
        name = coming.pop()
        if name in found:
            continue
        asked = subprocess.run(["dpkg-query", "-s", name], capture_output=True, text=True, check=False)
        if asked.returncode != 0:
            continue
        found[name] = asked.stdout
        depends = next((line for line in asked.stdout.splitlines() if line.startswith("Depends:")), "Depends:")
        coming += [one.split("|")[0].split()[0].split(":")[0] for one in depends.removeprefix("Depends:").split(",") if one.strip()]
    return found


@pytest.mark.skipif(shutil.which("dpkg-deb") is None, reason="there is no dpkg-deb")
def test_the_debian_package_installs_with_its_dependencies_and_trains(tmp_path):
    deb = package("deb", tmp_path / "dist")
    depends = subprocess.run(["dpkg-deb", "-f", deb, "Depends"], capture_output=True, text=True, check=True).stdout
    names = [one.split("(")[0].split("|")[0].strip() for one in depends.split(",")]
    needed = closure(names)
    root = BareRoot(tmp_path / "root")
    database = root.folder / "var" / "lib" / "dpkg"
    (database / "updates").mkdir(parents=True)
    (database / "info").mkdir()
    (database / "triggers").mkdir()
    (database / "status").write_text("\n".join(needed.values()))
    for name in needed:
        for path in subprocess.run(["dpkg-query", "-L", name], capture_output=True, text=True, check=True).stdout.splitlines():
            if ".so" in path and os.path.isfile(path):
                root.add(path)
    installed = subprocess.run(["dpkg", f"--root={root.folder}", "-i", deb], capture_output=True, text=True, check=False)
    assert installed.returncode == 0, installed.stdout + installed.stderr
    libraries = "/lib/x86_64-linux-gnu:/usr/lib/x86_64-linux-gnu"  # in place of ldconfig, which the root does not have
    assert trains(root.run("/usr/bin/pipetrain", *TRAINING, LD_LIBRARY_PATH=libraries))


@pytest.mark.skipif("PIPETRAIN_PROGRAM" not in os.environ, reason="PIPETRAIN_PROGRAM names no program")
def test_the_build_of_the_checkout_trains():
    """The fourth way, from source: ./dev build."""
    program = os.environ["PIPETRAIN_PROGRAM"]
    ended = subprocess.run([program, *TRAINING, "--device", "cpu"], capture_output=True, text=True, check=True)
    assert trains(ended.stdout)


def has_builder(*words):
    try:
        return subprocess.run(words, capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        return False


@pytest.mark.skipif(not has_builder("docker", "info"), reason="no Docker daemon answers")
def test_the_docker_image_trains(tmp_path):
    subprocess.run(["docker", "build", "-q", "-t", "pipetrain-test", "-f", ROOT / "containers" / "Dockerfile", ROOT], check=True)
    ended = subprocess.run(["docker", "run", "--rm", "pipetrain-test", *TRAINING], capture_output=True, text=True, check=True)
    assert trains(ended.stdout)


@pytest.mark.skipif(not has_builder("apptainer", "version"), reason="there is no apptainer")
def test_the_apptainer_image_trains(tmp_path):
    image = tmp_path / "pipetrain.sif"
    subprocess.run(["apptainer", "build", image, ROOT / "containers" / "pipetrain.def"], check=True, cwd=ROOT)
    ended = subprocess.run(["apptainer", "run", image, *TRAINING], capture_output=True, text=True, check=True)
    assert trains(ended.stdout)
