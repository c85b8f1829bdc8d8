#!/usr/bin/python3
"""Three epochs of PyTorch on the whole of Fashion-MNIST, as the figures compare Starling with it.

usage: torch_learn.py SEED

MLP 784-128-10, batches of 32, SGD with momentum 0.9 and rate 0.02. Prints the accuracy on the test set in percent.
"""
import sys

import torch

from torch_data import read, take_one_thread, tensors

take_one_thread()
torch.manual_seed(int(sys.argv[1]))
model = torch.nn.Sequential(torch.nn.Linear(784, 128), torch.nn.ReLU(), torch.nn.Linear(128, 10))
optimiser = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
loss_of = torch.nn.CrossEntropyLoss()
x, y = tensors(*read("train"))
for _ in range(3):
    for chosen in torch.randperm(len(x)).split(32):
        optimiser.zero_grad()
        loss_of(model(x[chosen]), y[chosen]).backward()
        optimiser.step()
x, y = tensors(*read("t10k"))
with torch.no_grad():
    print(100 * (model(x).argmax(1) == y).float().mean().item())
