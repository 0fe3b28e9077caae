"""What the tests of the command line write to disk, and how they read results."""

import csv
import os

import numpy as np

from spcatv.progress import Message

SHAPE = (9, 8, 7)
AFFINE = np.diag([3.0, 3.0, 3.0, 1.0])


def listing(folder):
    """Everything in a folder, hidden or not."""
    return sorted(os.listdir(folder))


def read_tsv(file):
    with file.open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream, delimiter="\t"))


def fields(n_samples=16, shape=(12, 10), seed=0):
    """Samples of a field with two patches that vary."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_samples, *shape))
    X[:, 3:7, 2:6] += 3 * rng.standard_normal((n_samples, 1, 1))
    X[:, 8:11, 5:9] += 3 * rng.standard_normal((n_samples, 1, 1))
    return X


class Messages:
    """A listener that keeps the text of all messages."""

    def __init__(self):
        self.lines = []

    def hear(self, event):
        if isinstance(event, Message):
            self.lines.append(event.text)
        return False
