"""Makes an environment that runs notebooks with the packages of the Python that runs this.

    .venv/bin/python .ci/notebook_environment.py .venv-notebook

It has a few packages of its own; a .pth file adds those of the project, whose pins stay small.
"""

import pathlib
import subprocess
import sys
import sysconfig
import venv

PACKAGES = ("nbclient>=0.8", "ipykernel>=6.25")


def main(folder: str) -> int:
    """Make the environment; return the exit code."""
    venv.create(folder, clear=True, with_pip=True)
    python = pathlib.Path(folder) / "bin" / "python"
    options = ["--quiet", "--disable-pip-version-check"]
    done = subprocess.run([python, "-m", "pip", "install", *options, *PACKAGES], check=False)
    if done.returncode:
        return done.returncode  # pip has said why
    report = [python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]
    own = subprocess.run(report, check=True, capture_output=True, text=True).stdout.strip()
    theirs = sysconfig.get_path("purelib")
    # addsitedir, not a path: the project itself is installed by a .pth file there.
    line = f"import site; site.addsitedir({theirs!r})\n"
    (pathlib.Path(own) / "project.pth").write_text(line)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
