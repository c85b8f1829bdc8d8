"""The simulator: stories of its own, and what it says of a network against that network."""
import json
import statistics
import subprocess

import agents
import network
from agents import Swarm, ring
from campaigns.force import Outcome, control
from campaigns.links import skip_without
from test_crash import boots

SLOW_KBIT = 8000
MODEL = "dense 512, relu, dense 128, relu, dense classes"
PARAMETERS = 4 * 512 + 512 + 512 * 128 + 128 + 128 * 3 + 3
N_ROUNDS = 12


def simulated(folder, **scenario):
    """What `starling sim` says of a scenario."""
    path = folder / "scenario.yaml"
    path.write_text(json.dumps(scenario, indent=1))
    done = subprocess.run([agents.options.starling, "sim", path, "--format", "json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True, timeout=600, check=False)
    if done.returncode != 0:
        raise AssertionError(f"starling sim: exit {done.returncode}: {done.stdout}{done.stderr}")
    return json.loads(done.stdout)["data"]


def round_seconds(site):
    """Between commits, without the first rounds."""
    times = [at for _, start in boots(site.log) for at in start][4:]
    return (times[-1] - times[0]) / (len(times) - 1)


def alone_seconds():
    """Of a round of one site without peers: training and storing."""
    with Swarm("a", [], rows=200, test_rows=60, job={"model": MODEL, "count": 20}) as swarm:
        swarm.start()
        swarm.wait_finished(60)
        return round_seconds(swarm["a"])


def predict(sizes):
    """Six agents in a ring, one of which sends over a slow link: the time of a round in namespaces and in the simulator."""
    skip_without("tc")
    with Swarm("abcdef", ring("abcdef"), rows=200, test_rows=60, job={"model": MODEL, "count": sizes.of(N_ROUNDS, 60)},
               site={"round": {"deadline_min_s": 20, "deadline_max_s": 60, "meet_s": 20}}) as swarm, \
            network.Network(swarm.names) as net:
        for site in swarm:
            site.host, site.prefix = net.address(site.name), net.inside(site.name)
        for name in swarm.names:
            swarm.write_site(name)
        net.shape("f", f"{SLOW_KBIT}kbit")
        swarm.start()
        swarm.wait_finished(300)
        measured = statistics.median(round_seconds(site) for site in swarm)
        host = {"training_ms": max(1, round(1000 * alone_seconds()))}
        scenario = dict(agents=6, topology="ring", rounds=sizes.of(N_ROUNDS, 60), model_kib=round(4 * PARAMETERS / 1024),
                        link={"delay_ms": 0.1}, host=host, round={"deadline_min_s": 20, "deadline_max_s": 60})
        predicted = simulated(swarm.folder, hosts=[{"agents": 5, "up_kbit": SLOW_KBIT, **host}], **scenario)["round_seconds"]
        blind = simulated(swarm.folder, **scenario)["round_seconds"]
    off = 100 * abs(predicted / measured - 1)
    failures = control(abs(blind / measured - 1) > 0.15, "the slow link was not told to it")
    return Outcome(1, failures, off, f"predicted {predicted:.3f} s, measured {measured:.3f} s a round, without the slow link {blind:.3f} s")
