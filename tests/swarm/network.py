"""Hosts in network namespaces of their own, each behind one router that can drop what it should forward.

    with Network(["a", "b"]) as network:
        site.host, site.prefix = network.address("a"), network.inside("a")
        network.cut("b")    # a black hole: no packet from or to b gets through, and nobody is told
        network.heal("b")

Needs root and the commands ip, unshare and nsenter; `why_not()` says what is missing, or nothing. The namespaces live as long
as the processes that hold them, which end with the test."""
import os
import shutil
import subprocess

from agents import die_with_parent, wait_for


def why_not():
    if os.geteuid() != 0:
        return "network namespaces need root"
    missing = [name for name in ("ip", "unshare", "nsenter") if not shutil.which(name)]
    if missing:
        return f"network namespaces need {', '.join(missing)}"
    done = subprocess.run(["unshare", "-n", "true"], stderr=subprocess.PIPE, text=True)
    return f"network namespaces are not allowed here: {done.stderr.strip()}" if done.returncode else None


class Network:
    def __init__(self, names):
        self.names, self.holders = ["router", *names], {}

    def __enter__(self):
        try:
            for name in self.names:
                self.hold(name)
            self.ip("router", "link", "set", "lo", "up")
            self.run("router", "sh", "-c", "echo 1 > /proc/sys/net/ipv4/ip_forward")
            for name in self.names[1:]:
                self.connect(name)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for holder in self.holders.values():
            holder.kill()
            holder.wait()

    def hold(self, name):
        holder = subprocess.Popen(["unshare", "-n", "sleep", "86400"], preexec_fn=die_with_parent)
        self.holders[name] = holder
        own = os.readlink("/proc/self/ns/net")
        wait_for(lambda: os.readlink(f"/proc/{holder.pid}/ns/net") != own, 5, f"{name} has its namespace")

    def inside(self, name):
        """What a command begins with to run there; it keeps its process id."""
        return ["nsenter", f"--net=/proc/{self.holders[name].pid}/ns/net"]

    def run(self, name, *command):
        subprocess.run([*self.inside(name), *command], check=True, timeout=10)

    def ip(self, name, *arguments):
        self.run(name, "ip", *arguments)

    def address(self, name, last=2):
        return f"10.77.{self.names.index(name)}.{last}"

    def connect(self, name):
        gateway = self.address(name, 1)
        self.ip("router", "link", "add", "name", f"to-{name}", "type", "veth", "peer", "name", "up0", "netns", str(self.holders[name].pid))
        self.ip("router", "addr", "add", f"{gateway}/24", "dev", f"to-{name}")
        self.ip("router", "link", "set", f"to-{name}", "up")
        self.ip(name, "link", "set", "lo", "up")
        self.ip(name, "addr", "add", f"{self.address(name)}/24", "dev", "up0")
        self.ip(name, "link", "set", "up0", "up")
        self.ip(name, "route", "add", "default", "via", gateway)

    def cut(self, name):
        for direction in ("from", "to"):
            self.ip("router", "rule", "add", direction, self.address(name), "blackhole")

    def heal(self, name):
        for direction in ("from", "to"):
            self.ip("router", "rule", "del", direction, self.address(name), "blackhole")
