"""Does `leash plan --detect` promise what the decision then gives? Simulated pairs against the exact power.

    python tests/benchmarks/power.py [--trials 1000]

For each kind of masses, k and net change: the number of problems that leash.statistics.power asks for at a power of
80%, and how often the decision of `analyze_counts` calls simulated pairs of that size `fewer` (by the short path
of calibration.py, which checks itself against it). Then the same for pilots: with masses fitted to a few samples of 120
problems, how far is the number asked for from that of the true masses?

Not covered: changes that are not the loss of whole problems, clusters, unequal numbers of samples.
"""

from __future__ import annotations

import argparse

import numpy as np
from calibration import ALPHA, CONFIDENCE, MIXTURES, analyze_quickly, draw_pair, lose, verify_short_path
from result import tell

from leash.sampling.power_plan import PRIORS
from leash.statistics import power
from leash.statistics.extrapolation import fit_mass_distribution
from leash.statistics.seeds import stream

NAMES = {"aime": "AIME-like", "math": "MATH-like", "embedded": "embedded-like"}
WANTED = 0.8
STANDARD_ERRORS = 3
PILOT_PROBLEMS = 120
PILOTS = 50


def measure_power(trials: int) -> list[float]:
    """Print a row for each setting; return the differences from the power asked for, in standard errors."""
    print(f"{'masses':<10}{'k':>6}{'net':>6}{'problems':>10}{'exact':>8}{'simulated':>11}   {trials} trials each")
    deviations = []
    for name, distribution in PRIORS.items():
        grid = power.mass_grid(distribution)
        for k in (16, 64, 1024):
            luck = power.luck_of_sampling(grid, k)
            for net in (0.03, 0.1, 0.2):
                problems = power.problems_needed(luck, net, ALPHA, WANTED)
                assert problems is not None
                exact = power.decision_power(luck, net, problems, ALPHA)
                rng, fewer = stream("power", name, k, str(net)), np.zeros(trials)
                for trial in range(trials):
                    base = MIXTURES[NAMES[name]](rng, problems, k)
                    counts = draw_pair(rng, (base, lose(rng, base, net / luck.reach)), (k, k))
                    fewer[trial] = analyze_quickly(counts, with_noise=False)["decision"] == "fewer"
                error = np.sqrt(exact * (1 - exact) / trials)
                deviations.append((fewer.mean() - exact) / error)
                mark = "  MISSED" if abs(deviations[-1]) > STANDARD_ERRORS else ""
                print(f"{name:<10}{k:>6}{net:>6}{problems:>10,}{exact:>8.1%}{fewer.mean():>11.1%}{mark}", flush=True)
    return deviations


def measure_pilots() -> None:
    print(f"\nproblems asked for after a pilot of {PILOT_PROBLEMS} problems: median and central 80% of {PILOTS} pilots")
    print(f"{'masses':<10}{'samples':>8}{'k':>6}{'true masses':>13}{'pilot':>20}   net change 0.05")
    for name, distribution in PRIORS.items():
        for samples in (4, 16, 64):
            rng = stream("power", "pilot", name, samples)
            fits = []
            for _ in range(PILOTS):
                masses = MIXTURES[NAMES[name]](rng, PILOT_PROBLEMS, samples)
                fits.append(fit_mass_distribution(np.full(PILOT_PROBLEMS, samples), rng.binomial(samples, masses)))
            lucks = {k: [power.luck_of_sampling(power.mass_grid(fit), k) for fit in fits] for k in (64, 1024)}
            for k, of_pilots in lucks.items():
                of_true = power.luck_of_sampling(power.mass_grid(distribution), k)
                needed, *asked = (power.problems_needed(luck, 0.05, ALPHA, WANTED) for luck in (of_true, *of_pilots))
                low, middle, high = np.quantile([n for n in asked if n], [0.1, 0.5, 0.9])
                cells = f"{name:<10}{samples:>8}{k:>6}{needed:>13,}"
                print(f"{cells}{f'{middle:,.0f} ({low:,.0f} to {high:,.0f})':>20}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--trials", type=int, default=1000)
    trials = parser.parse_args().trials
    assert CONFIDENCE == 1 - ALPHA
    verify_short_path()
    deviations = measure_power(trials)
    measure_pilots()
    worst = float(np.abs(deviations).max())
    tell(
        "simulated less exact power, standard errors",
        ours=worst,
        theirs=float(STANDARD_ERRORS),
        ratio=worst / STANDARD_ERRORS,
        goal=f"at most {STANDARD_ERRORS}",
        ok=worst <= STANDARD_ERRORS,
    )


if __name__ == "__main__":
    main()
