"""The simulator: stories of its own, and what it says of a network against that network."""
import json
import pathlib
import statistics
import subprocess
import tempfile

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


def sim(*arguments, timeout=3600):
    """What `starling sim` says, and its exit code: 1 when something that must always hold did not."""
    done = subprocess.run([agents.options.starling, "sim", *map(str, arguments), "--format", "json"], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, timeout=timeout, check=False)
    if done.returncode not in (0, 1):
        raise AssertionError(f"starling sim {arguments}: exit {done.returncode}: {done.stdout}{done.stderr}")
    return json.loads(done.stdout)["data"], done.returncode


def told_in(folder, **scenario):
    path = folder / "scenario.yaml"
    path.write_text(json.dumps(scenario, indent=1))
    return path


def simulated(folder, **scenario):
    return sim(told_in(folder, **scenario))[0]


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


# ---- stories ----

def parted(settle_rounds):
    """4 and 4 of a ring do not see each other for ten rounds of 10 s."""
    return dict(agents=8, topology="ring", rounds=0, settle_rounds=settle_rounds, model_kib=1, duration_s=9000,
                host={"training_ms": 10000},
                events=[{"at_s": 200, "do": "part", "agents": "0..3", "to": "4..7"}, {"at_s": 300, "do": "heal", "agents": "0..3"}])


def stories(sizes):
    """Random scenarios, each looked at after every event; and one of them twice: one seed is one story."""
    n = sizes.of(60, 3000)
    with tempfile.TemporaryDirectory() as name:
        data, _ = sim("--random", n)
        failures = [f"seed {broken}" for broken in data["broken"]]
        once, again = (sim(told_in(pathlib.Path(name), seed=7, **parted(6)))[0]["trace"] for _ in range(2))
        other = sim(told_in(pathlib.Path(name), seed=8, **parted(6)))[0]["trace"]
        if once != again:
            failures.append(f"one seed has two stories, {once} and {again}")
        failures += control(other != once, "another seed told the same story")
        failures += control(any(sim(told_in(pathlib.Path(name), seed=seed, **parted(1)))[1] for seed in range(1, 9)),
                            "one round was all the time that two halves had to come together")
    return Outcome(n, failures, None, f"{data['events']} events, {data['virtual_seconds']:.0f} s of virtual time")


def together(sizes):
    """Rounds until two halves that were parted are as close to each other as undisturbed, in the worst of some stories."""
    n_seeds, needed, failures = sizes.of(4, 40), [], []
    with tempfile.TemporaryDirectory() as name:
        for seed in range(1, n_seeds + 1):
            for rounds in range(1, 13):
                if sim(told_in(pathlib.Path(name), seed=seed, **parted(rounds)))[1] == 0:
                    break
            needed.append(rounds)
        failures += control(max(needed) > 1, "one round was always enough")
    return Outcome(n_seeds, failures, max(needed), f"of {sorted(needed)} rounds after healing, the most")
