#!/usr/bin/python3
"""Samples that do not fit into memory: the same model, within the memory that was said."""
import os
import pathlib
import random
import struct
import tempfile
import unittest

from agents import Swarm, main, starling, wait_for

N, SIDE, CAP_MIB = 20000, 28, 4
MIB = 1 << 20


def write_images(folder):
    """15 MiB of noise in IDX files."""
    rng = random.Random(1)
    (folder / "images").write_bytes(struct.pack(">BBBBIII", 0, 0, 8, 3, N, SIDE, SIDE) + rng.randbytes(N * SIDE * SIDE))
    (folder / "labels").write_bytes(struct.pack(">BBBBI", 0, 0, 8, 1, N) + bytes(i % 10 for i in range(N)))


JOB = {"job": "noise", "label": "", "classes": [str(i) for i in range(10)], "features": [], "input": "28x28x1",
       "range": "0..255", "scale": {"mean": [127.5], "sd": [73.6]}, "train": {"learning_rate": 0.01},
       "model": "dense 8, tanh, dropout 0.1, dense classes", "count": 2}
SITE = {"data": {"train": "../images", "train_labels": "../labels", "global_test": "../images",
                 "global_test_labels": "../labels"}, "min_peers": 0}


def resident(site):
    """The peak of what an agent has had in memory of its own, in bytes; pages of files are the kernel's to take back."""
    status = pathlib.Path(f"/proc/{site.process.pid}/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) * 1024


class Streaming(unittest.TestCase):
    def job(self):
        job = dict(JOB, task="classify")
        del job["features"], job["label"]
        return job

    def test_the_model_is_the_same_and_memory_is_kept(self):
        models, peaks = {}, {}
        for cap in (1024, CAP_MIB):
            with Swarm("a", []) as swarm:
                write_images(swarm.folder)
                swarm.write_job(self.job())
                site = swarm["a"]
                data = dict(SITE["data"], memory_max_mib=cap)
                swarm.write_site("a", jobs=[{"job": "../points.job.yaml", "data": data, "when_done": "serve"}])
                checked = site.ask("config", "check")
                self.assertEqual(checked["samples_max_bytes"], cap * MIB)
                swarm.start()
                wait_for(lambda: site.is_running and site.answers() and site.status()["job"]["samples"] > 0, 30, "data")
                (swarm.folder / "images").write_bytes(b"")  # what was read is the agent's own
                swarm.wait_finished(60)
                job = site.status()["job"]
                self.assertEqual(job["streamed_bytes"] > 0, cap == CAP_MIB, job)
                self.assertLessEqual(job["samples_bytes"], cap * MIB)
                self.assertEqual("streamed from disk" in site.cli("status").out, cap == CAP_MIB)
                self.assertEqual([name for name in os.listdir(site.state) if "samples" in name], [])
                models[cap], peaks[cap] = site.models(), resident(site)
        self.assertEqual(len(models[CAP_MIB]), 2)
        self.assertEqual(models[CAP_MIB], models[1024])
        whole = 2 * N * SIDE * SIDE  # the training file twice: the common test set is the same
        print(f"# peak of memory: {peaks[1024] / MIB:.1f} MiB in memory, {peaks[CAP_MIB] / MIB:.1f} MiB streamed")
        self.assertLess(peaks[CAP_MIB], peaks[1024] - whole + CAP_MIB * MIB + 4 * MIB)



if __name__ == "__main__":
    main()
