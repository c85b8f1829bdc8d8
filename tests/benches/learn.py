"""What three epochs on the whole of Fashion-MNIST teach one agent, beside PyTorch with the same hyper-parameters."""
import pathlib
import statistics
import subprocess

from benches.agent import FASHION_JOB, FASHION_SITE
from benches.peer import ENVIRONMENT, PYTHON
from swarm.agents import Swarm, options

TWIN = pathlib.Path(__file__).with_name("torch_learn.py")
SEEDS = (1, 2, 3)
JOB = {key: value for key, value in FASHION_JOB.items() if key != "split"} | {
    "holdout": 0, "validation": 0, "count": 3,
    "train": {"epochs": 1, "batch": 32, "learning_rate": 0.02, "momentum": 0.9},
}
DATA = {key: value for key, value in FASHION_SITE["data"].items() if key != "part"}


def accuracy(seed):
    """Percent of the test set after the third epoch."""
    site = {"data": DATA, "when_done": "exit", "train": {"seed": seed}}
    with Swarm("a", [], job=JOB | {"init_seed": seed}, site=site) as swarm:
        agent = swarm["a"].start()
        if agent.wait_ended(300) != 0:
            raise RuntimeError(f"the agent failed: {agent.log[-300:]}")
        return 100 * agent.round("3")["global"]


def twin_accuracy(seed):
    return float(subprocess.run([PYTHON, TWIN, str(seed)], stdout=subprocess.PIPE, check=True, timeout=300, env=ENVIRONMENT).stdout)


def behind_points(program):
    """How many points PyTorch is ahead, each the mean over the seeds."""
    options.starling = str(program)
    own = statistics.mean(map(accuracy, SEEDS))
    return statistics.mean(map(twin_accuracy, SEEDS)) - own, None
