"""Hosts on one machine: network namespaces with a bridge between them, for tests of a network."""

import contextlib
import os
import pathlib
import shutil
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).parents[3]
DEPLOY = ROOT / "deploy"
TOOLS = ("ip", "nft", "stunnel", "openssl")


def missing():
    """What this machine lacks for such hosts; empty if nothing."""
    if os.geteuid() != 0:
        return "root"
    absent = [tool for tool in TOOLS if shutil.which(tool) is None]
    if absent:
        return ", ".join(absent)
    probe = f"tff{os.getpid()}probe"
    if subprocess.run(["ip", "netns", "add", probe], capture_output=True).returncode:
        return "network namespaces"
    subprocess.run(["ip", "netns", "del", probe], check=True)
    return ""


class Hosts:
    """Namespaces `<prefix>-<name>`, of which host i has the address 10.77.0.<i + 1>."""

    def __init__(self, names, folder):
        self._prefix = f"tff{os.getpid()}"
        self._folder = folder
        self._processes = []
        self.names = names
        self._sh(f"ip netns add {self._prefix}-switch")
        self._in("switch", "ip link add bridge type bridge", "ip link set bridge up")
        for name in names:
            self._add(name)

    def address(self, name):
        return f"10.77.0.{self.names.index(name) + 1}"

    def start(self, name, *command, log, cwd=ROOT, **variables):
        """Start a command on a host; its output goes to a file of the test's folder."""
        path = self._folder / log
        with open(path, "w") as output:
            process = subprocess.Popen(
                ["ip", "netns", "exec", f"{self._prefix}-{name}", *command],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                cwd=cwd,
                env={**os.environ, **variables},
            )
        self._processes.append(process)
        return process, path

    def python(self, name, code):
        """Run Python on a host and return what it prints."""
        command = ["ip", "netns", "exec", f"{self._prefix}-{name}", sys.executable, "-c", code]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
        return done.stdout.strip()

    def close_port(self, name, port):
        """Close a port to all but loopback, with the rules of docs/runtimes.md."""
        self._in(
            name,
            "nft add table inet tff",
            "nft 'add chain inet tff input { type filter hook input priority 0; }'",
            f'nft add rule inet tff input iifname != "lo" tcp dport {port} drop',
        )

    def plug(self, name, is_in):
        """Pull the cable of a host, or plug it in again."""
        self._in("switch", f"ip link set to-{name} {'up' if is_in else 'down'}")

    def stop(self, process):
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(20)
        process.kill()
        process.wait()

    def close(self):
        for process in self._processes:
            self.stop(process)
        for name in ("switch", *self.names):
            self._sh(f"ip netns del {self._prefix}-{name}")

    def _add(self, name):
        host, switch = f"{self._prefix}-{name}", f"{self._prefix}-switch"
        self._sh(
            f"ip netns add {host}",
            f"ip -n {switch} link add to-{name} type veth peer name cable netns {host}",
            f"ip -n {switch} link set to-{name} master bridge up",
            f"ip -n {host} addr add {self.address(name)}/24 dev cable",
            f"ip -n {host} link set cable up",
            f"ip -n {host} link set lo up",
        )

    def _in(self, name, *commands):
        self._sh(*(f"ip netns exec {self._prefix}-{name} {command}" for command in commands))

    def _sh(self, *commands):
        for command in commands:
            subprocess.run(command, shell=True, check=True, capture_output=True)


def wait_for(text, path, process):
    """Wait until the output of a process holds a text."""
    wait_until(lambda: text in path.read_text(), process, path)


def wait_until(condition, process, output, seconds=120.0):
    """Wait for something that a process does."""
    deadline = time.monotonic() + seconds
    while not condition():
        is_running = process.poll() is None
        assert is_running or condition(), output.read_text()
        assert time.monotonic() < deadline, output.read_text()
        time.sleep(0.05)
