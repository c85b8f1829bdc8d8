#!/usr/bin/env python3
"""A second implementation of models/judging/comparison.c in exact or long arithmetic, from the papers: prints the rows that
tests/unit/models/test_comparison.c holds; with --check FILE says which are not there. Standard library only."""

import sys
from fractions import Fraction
from math import ceil, comb, sqrt
from statistics import NormalDist

Z = NormalDist().inv_cdf(0.975)
Z80 = NormalDist().inv_cdf(0.8)


def exact(b, c):
    n = b + c
    return float(min(1, 2 * sum(Fraction(comb(n, k), 2**n) for k in range(min(b, c) + 1))))


def asymptotic(b, c):
    return 2 * (1 - NormalDist().cdf(abs(b - c) / sqrt(b + c)))


def likeliest(b, c, n, delta):
    """P(only first) at the difference delta, by maximising the trinomial likelihood directly (golden section)."""
    from math import log

    def log_likelihood(q):
        p = q + delta
        rest = 1 - p - q
        terms = ((b, p), (c, q), (n - b - c, rest))
        return sum(k * (log(x) if x > 0 else float("-inf")) for k, x in terms if k)

    lo, hi = max(0.0, -delta), (1 - delta) / 2
    for _ in range(300):
        x, y = hi - (hi - lo) * 0.6180339887498949, lo + (hi - lo) * 0.6180339887498949
        if log_likelihood(x) > log_likelihood(y):
            hi = y
        else:
            lo = x
    return (lo + hi) / 2


def tango(b, c, n):
    def score(delta):
        q = likeliest(b, c, n, delta)
        variance = n * (2 * q + delta - delta * delta)
        return (b - c - n * delta) / sqrt(variance) if variance > 0 else float("inf") * (b - c - n * delta)

    def limit(z):
        lo, hi = -1 + 1e-12, 1 - 1e-12
        for _ in range(80):
            middle = (lo + hi) / 2
            lo, hi = (middle, hi) if score(middle) > z else (lo, middle)
        return (lo + hi) / 2

    return limit(Z), limit(-Z)


def connor(psi, delta):
    return (Z * sqrt(psi) + Z80 * sqrt(psi - delta**2)) ** 2 / delta**2


def rows():
    for b, c, n in ((6, 16, 161), (12, 2, 50), (1, 7, 21), (40, 20, 160), (0, 0, 50), (31, 16, 312), (5, 0, 5)):
        p = exact(b, c) if b + c < 25 else asymptotic(b, c)
        yield "{%d, %d, %d, %.10f, %.7f, %.7f}" % (b, c, n, p, *tango(b, c, n))
    for psi in ("0.15", "0.3"):
        yield "connor_samples(%s, 0.02), %d" % (psi, ceil(connor(float(psi), 0.02)))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--check"]:
        with open(sys.argv[2], encoding="utf-8") as f:
            text = f.read()
        missing = [row for row in rows() if row not in text]
        sys.exit("not in %s:\n%s" % (sys.argv[2], "\n".join(missing)) if missing else 0)
    print("\n".join(rows()))
