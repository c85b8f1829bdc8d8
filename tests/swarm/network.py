"""Hosts in network namespaces of their own, each behind one router that can drop what it should forward.

    with Network(["a", "b"]) as network:
        site.host, site.prefix = network.address("a"), network.inside("a")
        network.cut("b")    # a black hole: no packet from or to b gets through, and nobody is told
        network.heal("b")
        network.lose(0.2)             # every fifth packet, of all
        network.part("ab", "cd")      # nothing passes between the two; `network.part("a", "b", both=False)`: from a to b only
        network.rejoin()
        network.shape("b", "4mbit")   # what b sends

Needs root and the commands ip, unshare and nsenter, for losses and partitions iptables too, for rates tc; `why_not()` says what is
missing, or nothing. The namespaces live as long
as the processes that hold them, which end with the test."""
import os
import shutil
import subprocess

from agents import die_with_parent, wait_for


def why_not(*more):
    """more: further commands that are needed."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    missing = [name for name in ("ip", "unshare", "nsenter", *more) if not shutil.which(name)]
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

    def lose(self, share):
        """This share of all packets that the router forwards; what stood before is over."""
        self.run("router", "iptables", "-t", "mangle", "-F", "FORWARD")
        if share > 0:
            self.run("router", "iptables", "-t", "mangle", "-A", "FORWARD", "-m", "statistic", "--mode", "random",
                     "--probability", str(share), "-j", "DROP")

    def part(self, some, others, both=True):
        for one in some:
            for other in others:
                for source, target in ((one, other), (other, one))[:2 if both else 1]:
                    self.run("router", "iptables", "-A", "FORWARD", "-s", self.address(source), "-d", self.address(target), "-j", "DROP")

    def rejoin(self):
        self.run("router", "iptables", "-F", "FORWARD")

    def shape(self, name, rate):
        """What the host sends is slowed to a rate of tc."""
        self.run(name, "tc", "qdisc", "replace", "dev", "up0", "root", "handle", "1:", "htb", "default", "1")
        self.run(name, "tc", "class", "replace", "dev", "up0", "parent", "1:", "classid", "1:1", "htb", "rate", rate, "burst", "15k")
