#!/usr/bin/python3
"""One agent of the swarm that the figures compare Starling with: PyTorch and pyzmq, as short as people write it.

usage: torch_swarm.py INDEX PORT,PORT,… MODEL STEPS ROUNDS

Agent INDEX of a ring trains on its share of Fashion-MNIST, sends its whole model as plain f32 to both neighbours, takes
theirs, averages the three and evaluates on 150 of its samples: no encryption, no signatures, nothing made durable. STEPS
0: an epoch a round. Prints one line a round: the time on the monotonic clock, private and resident KiB.
"""
import sys
import time

import numpy
import torch
import zmq

from torch_data import read, take_one_thread, tensors

BATCH, N_VALIDATION = 32, 150

MODELS = {
    "mlp": lambda: torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(784, 128), torch.nn.ReLU(), torch.nn.Linear(128, 10)),
    "lenet": lambda: torch.nn.Sequential(
        torch.nn.Conv2d(1, 8, 5), torch.nn.ReLU(), torch.nn.MaxPool2d(2), torch.nn.Conv2d(8, 16, 5), torch.nn.ReLU(),
        torch.nn.MaxPool2d(2), torch.nn.Flatten(), torch.nn.Linear(256, 128), torch.nn.ReLU(), torch.nn.Linear(128, 10)),
}


def share(index, n):
    images, labels = read("train")
    return tensors(images.reshape(-1, 1, 28, 28)[index::n], labels[index::n])


def flat(model):
    return torch.cat([p.data.reshape(-1) for p in model.parameters()])


def set_flat(model, values):
    at = 0
    for p in model.parameters():
        p.data.copy_(values[at:at + p.numel()].view_as(p))
        at += p.numel()


class Neighbours:
    """A socket of its own to take models, one to each neighbour to send them."""

    def __init__(self, index, ports):
        context = zmq.Context()
        n = len(ports)
        self.own = context.socket(zmq.PULL)
        self.own.bind(f"tcp://127.0.0.1:{ports[index]}")
        self.others = []
        for other in sorted({(index - 1) % n, (index + 1) % n}):
            end = context.socket(zmq.PUSH)
            end.connect(f"tcp://127.0.0.1:{ports[other]}")
            self.others.append(end)
        self.early = {}

    def exchange(self, number, values):
        head = number.to_bytes(4, "little")
        for end in self.others:
            end.send_multipart([head, values.numpy()], copy=False)
        while len(self.early.get(number, [])) < len(self.others):
            their_head, body = self.own.recv_multipart()
            theirs = torch.from_numpy(numpy.frombuffer(body, dtype=numpy.float32).copy())
            self.early.setdefault(int.from_bytes(their_head, "little"), []).append(theirs)
        return self.early.pop(number)


def memory_kib():
    rollup = dict(line.split(":") for line in open("/proc/self/smaps_rollup").read().splitlines()[1:])
    kib = {name: int(value.split()[0]) for name, value in rollup.items()}
    return kib["Private_Clean"] + kib["Private_Dirty"], kib["Rss"]


def main():
    index, ports = int(sys.argv[1]), [int(port) for port in sys.argv[2].split(",")]
    steps, rounds = int(sys.argv[4]), int(sys.argv[5])
    take_one_thread()
    torch.manual_seed(1)
    model = MODELS[sys.argv[3]]()
    optimiser = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    loss_of = torch.nn.CrossEntropyLoss()
    x, y = share(index, len(ports))
    x_held, y_held, x, y = x[:N_VALIDATION], y[:N_VALIDATION], x[N_VALIDATION:], y[N_VALIDATION:]
    neighbours = Neighbours(index, ports)
    order, at = torch.randperm(len(x)), 0
    for number in range(rounds):
        for _ in range(steps or -(-len(x) // BATCH)):
            if at >= len(x):
                order, at = torch.randperm(len(x)), 0
            chosen = order[at:at + BATCH]
            at += BATCH
            optimiser.zero_grad()
            loss_of(model(x[chosen]), y[chosen]).backward()
            optimiser.step()
        own = flat(model)
        models = [own, *neighbours.exchange(number, own)]
        set_flat(model, sum(models) / len(models))
        with torch.no_grad():
            (model(x_held).argmax(1) == y_held).float().mean().item()
        print(time.monotonic(), *memory_kib(), flush=True)


main()
